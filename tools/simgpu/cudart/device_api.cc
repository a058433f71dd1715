// Devices: selection, properties, attributes, limits, peers, versions.

#include <cstring>

#include "tools/simgpu/cudart/runtime.h"

namespace simgpu::cudart {
namespace {

CUdevice_attribute to_attribute(cudaDeviceAttr attribute) {
  static_assert(static_cast<int>(cudaDevAttrMaxThreadsPerBlock) ==
                CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  static_assert(static_cast<int>(cudaDevAttrHostNumaId) == CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID);
  return static_cast<CUdevice_attribute>(attribute);
}

/// Reads attributes into the fields of a cudaDeviceProp; a driver that does not know one leaves
/// zero.
class PropertyReader {
 public:
  PropertyReader(const DriverTable& table, CUdevice device) : table_(table), device_(device) {}

  template <typename Field>
  void operator()(Field& field, cudaDeviceAttr attribute) const {
    int value = 0;
    if (table_.cuDeviceGetAttribute(&value, to_attribute(attribute), device_) == CUDA_SUCCESS) {
      field = static_cast<Field>(value);
    }
  }

 private:
  const DriverTable& table_;
  CUdevice device_;
};

void read_limits(cudaDeviceProp& prop, const PropertyReader& read) {
  read(prop.sharedMemPerBlock, cudaDevAttrMaxSharedMemoryPerBlock);
  read(prop.regsPerBlock, cudaDevAttrMaxRegistersPerBlock);
  read(prop.warpSize, cudaDevAttrWarpSize);
  read(prop.memPitch, cudaDevAttrMaxPitch);
  read(prop.maxThreadsPerBlock, cudaDevAttrMaxThreadsPerBlock);
  read(prop.maxThreadsDim[0], cudaDevAttrMaxBlockDimX);
  read(prop.maxThreadsDim[1], cudaDevAttrMaxBlockDimY);
  read(prop.maxThreadsDim[2], cudaDevAttrMaxBlockDimZ);
  read(prop.maxGridSize[0], cudaDevAttrMaxGridDimX);
  read(prop.maxGridSize[1], cudaDevAttrMaxGridDimY);
  read(prop.maxGridSize[2], cudaDevAttrMaxGridDimZ);
  read(prop.totalConstMem, cudaDevAttrTotalConstantMemory);
  read(prop.major, cudaDevAttrComputeCapabilityMajor);
  read(prop.minor, cudaDevAttrComputeCapabilityMinor);
  read(prop.textureAlignment, cudaDevAttrTextureAlignment);
  read(prop.texturePitchAlignment, cudaDevAttrTexturePitchAlignment);
  read(prop.surfaceAlignment, cudaDevAttrSurfaceAlignment);
  read(prop.multiProcessorCount, cudaDevAttrMultiProcessorCount);
  read(prop.maxThreadsPerMultiProcessor, cudaDevAttrMaxThreadsPerMultiProcessor);
  read(prop.maxBlocksPerMultiProcessor, cudaDevAttrMaxBlocksPerMultiprocessor);
  read(prop.sharedMemPerMultiprocessor, cudaDevAttrMaxSharedMemoryPerMultiprocessor);
  read(prop.regsPerMultiprocessor, cudaDevAttrMaxRegistersPerMultiprocessor);
  read(prop.sharedMemPerBlockOptin, cudaDevAttrMaxSharedMemoryPerBlockOptin);
  read(prop.reservedSharedMemPerBlock, cudaDevAttrReservedSharedMemoryPerBlock);
  read(prop.memoryBusWidth, cudaDevAttrGlobalMemoryBusWidth);
  read(prop.l2CacheSize, cudaDevAttrL2CacheSize);
  read(prop.persistingL2CacheMaxSize, cudaDevAttrMaxPersistingL2CacheSize);
  read(prop.accessPolicyMaxWindowSize, cudaDevAttrMaxAccessPolicyWindowSize);
  read(prop.asyncEngineCount, cudaDevAttrAsyncEngineCount);
}

void read_textures(cudaDeviceProp& prop, const PropertyReader& read) {
  read(prop.maxTexture1D, cudaDevAttrMaxTexture1DWidth);
  read(prop.maxTexture1DMipmap, cudaDevAttrMaxTexture1DMipmappedWidth);
  read(prop.maxTexture2D[0], cudaDevAttrMaxTexture2DWidth);
  read(prop.maxTexture2D[1], cudaDevAttrMaxTexture2DHeight);
  read(prop.maxTexture2DMipmap[0], cudaDevAttrMaxTexture2DMipmappedWidth);
  read(prop.maxTexture2DMipmap[1], cudaDevAttrMaxTexture2DMipmappedHeight);
  read(prop.maxTexture2DLinear[0], cudaDevAttrMaxTexture2DLinearWidth);
  read(prop.maxTexture2DLinear[1], cudaDevAttrMaxTexture2DLinearHeight);
  read(prop.maxTexture2DLinear[2], cudaDevAttrMaxTexture2DLinearPitch);
  read(prop.maxTexture2DGather[0], cudaDevAttrMaxTexture2DGatherWidth);
  read(prop.maxTexture2DGather[1], cudaDevAttrMaxTexture2DGatherHeight);
  read(prop.maxTexture3D[0], cudaDevAttrMaxTexture3DWidth);
  read(prop.maxTexture3D[1], cudaDevAttrMaxTexture3DHeight);
  read(prop.maxTexture3D[2], cudaDevAttrMaxTexture3DDepth);
  read(prop.maxTexture3DAlt[0], cudaDevAttrMaxTexture3DWidthAlt);
  read(prop.maxTexture3DAlt[1], cudaDevAttrMaxTexture3DHeightAlt);
  read(prop.maxTexture3DAlt[2], cudaDevAttrMaxTexture3DDepthAlt);
  read(prop.maxTextureCubemap, cudaDevAttrMaxTextureCubemapWidth);
  read(prop.maxTexture1DLayered[0], cudaDevAttrMaxTexture1DLayeredWidth);
  read(prop.maxTexture1DLayered[1], cudaDevAttrMaxTexture1DLayeredLayers);
  read(prop.maxTexture2DLayered[0], cudaDevAttrMaxTexture2DLayeredWidth);
  read(prop.maxTexture2DLayered[1], cudaDevAttrMaxTexture2DLayeredHeight);
  read(prop.maxTexture2DLayered[2], cudaDevAttrMaxTexture2DLayeredLayers);
  read(prop.maxTextureCubemapLayered[0], cudaDevAttrMaxTextureCubemapLayeredWidth);
  read(prop.maxTextureCubemapLayered[1], cudaDevAttrMaxTextureCubemapLayeredLayers);
  read(prop.maxSurface1D, cudaDevAttrMaxSurface1DWidth);
  read(prop.maxSurface2D[0], cudaDevAttrMaxSurface2DWidth);
  read(prop.maxSurface2D[1], cudaDevAttrMaxSurface2DHeight);
  read(prop.maxSurface3D[0], cudaDevAttrMaxSurface3DWidth);
  read(prop.maxSurface3D[1], cudaDevAttrMaxSurface3DHeight);
  read(prop.maxSurface3D[2], cudaDevAttrMaxSurface3DDepth);
  read(prop.maxSurface1DLayered[0], cudaDevAttrMaxSurface1DLayeredWidth);
  read(prop.maxSurface1DLayered[1], cudaDevAttrMaxSurface1DLayeredLayers);
  read(prop.maxSurface2DLayered[0], cudaDevAttrMaxSurface2DLayeredWidth);
  read(prop.maxSurface2DLayered[1], cudaDevAttrMaxSurface2DLayeredHeight);
  read(prop.maxSurface2DLayered[2], cudaDevAttrMaxSurface2DLayeredLayers);
  read(prop.maxSurfaceCubemap, cudaDevAttrMaxSurfaceCubemapWidth);
  read(prop.maxSurfaceCubemapLayered[0], cudaDevAttrMaxSurfaceCubemapLayeredWidth);
  read(prop.maxSurfaceCubemapLayered[1], cudaDevAttrMaxSurfaceCubemapLayeredLayers);
}

void read_features(cudaDeviceProp& prop, const PropertyReader& read) {
  read(prop.integrated, cudaDevAttrIntegrated);
  read(prop.canMapHostMemory, cudaDevAttrCanMapHostMemory);
  read(prop.concurrentKernels, cudaDevAttrConcurrentKernels);
  read(prop.ECCEnabled, cudaDevAttrEccEnabled);
  read(prop.pciBusID, cudaDevAttrPciBusId);
  read(prop.pciDeviceID, cudaDevAttrPciDeviceId);
  read(prop.pciDomainID, cudaDevAttrPciDomainId);
  read(prop.tccDriver, cudaDevAttrTccDriver);
  read(prop.unifiedAddressing, cudaDevAttrUnifiedAddressing);
  read(prop.streamPrioritiesSupported, cudaDevAttrStreamPrioritiesSupported);
  read(prop.globalL1CacheSupported, cudaDevAttrGlobalL1CacheSupported);
  read(prop.localL1CacheSupported, cudaDevAttrLocalL1CacheSupported);
  read(prop.managedMemory, cudaDevAttrManagedMemory);
  read(prop.isMultiGpuBoard, cudaDevAttrIsMultiGpuBoard);
  read(prop.multiGpuBoardGroupID, cudaDevAttrMultiGpuBoardGroupID);
  read(prop.hostNativeAtomicSupported, cudaDevAttrHostNativeAtomicSupported);
  read(prop.pageableMemoryAccess, cudaDevAttrPageableMemoryAccess);
  read(prop.concurrentManagedAccess, cudaDevAttrConcurrentManagedAccess);
  read(prop.computePreemptionSupported, cudaDevAttrComputePreemptionSupported);
  read(prop.canUseHostPointerForRegisteredMem, cudaDevAttrCanUseHostPointerForRegisteredMem);
  read(prop.cooperativeLaunch, cudaDevAttrCooperativeLaunch);
  read(prop.pageableMemoryAccessUsesHostPageTables,
       cudaDevAttrPageableMemoryAccessUsesHostPageTables);
  read(prop.directManagedMemAccessFromHost, cudaDevAttrDirectManagedMemAccessFromHost);
  read(prop.hostRegisterSupported, cudaDevAttrHostRegisterSupported);
  read(prop.sparseCudaArraySupported, cudaDevAttrSparseCudaArraySupported);
  read(prop.hostRegisterReadOnlySupported, cudaDevAttrHostRegisterReadOnlySupported);
  read(prop.timelineSemaphoreInteropSupported, cudaDevAttrTimelineSemaphoreInteropSupported);
  read(prop.memoryPoolsSupported, cudaDevAttrMemoryPoolsSupported);
  read(prop.gpuDirectRDMASupported, cudaDevAttrGPUDirectRDMASupported);
  read(prop.gpuDirectRDMAFlushWritesOptions, cudaDevAttrGPUDirectRDMAFlushWritesOptions);
  read(prop.gpuDirectRDMAWritesOrdering, cudaDevAttrGPUDirectRDMAWritesOrdering);
  read(prop.memoryPoolSupportedHandleTypes, cudaDevAttrMemoryPoolSupportedHandleTypes);
  read(prop.deferredMappingCudaArraySupported, cudaDevAttrDeferredMappingCudaArraySupported);
  read(prop.ipcEventSupported, cudaDevAttrIpcEventSupport);
  read(prop.clusterLaunch, cudaDevAttrClusterLaunch);
  read(prop.deviceNumaConfig, cudaDevAttrNumaConfig);
  read(prop.deviceNumaId, cudaDevAttrNumaId);
  read(prop.mpsEnabled, cudaDevAttrMpsEnabled);
  read(prop.hostNumaId, cudaDevAttrHostNumaId);
  read(prop.gpuPciDeviceID, cudaDevAttrGpuPciDeviceId);
  read(prop.gpuPciSubsystemID, cudaDevAttrGpuPciSubsystemId);
  read(prop.hostNumaMultinodeIpcSupported, cudaDevAttrHostNumaMultinodeIpcSupported);
}

cudaError_t read_properties(const DriverTable& table, int ordinal, cudaDeviceProp* prop) {
  CUdevice device = 0;
  if (table.cuDeviceGet(&device, ordinal) != CUDA_SUCCESS) return cudaErrorInvalidDevice;
  cudaDeviceProp read{};
  CUresult result = table.cuDeviceGetName(read.name, static_cast<int>(sizeof(read.name)), device);
  if (result != CUDA_SUCCESS) return to_error(result);
  result = table.cuDeviceTotalMem(&read.totalGlobalMem, device);
  if (result != CUDA_SUCCESS) return to_error(result);
  static_assert(sizeof(CUuuid) == sizeof(read.uuid));
  CUuuid uuid{};
  if (table.cuDeviceGetUuid(&uuid, device) == CUDA_SUCCESS) {
    std::memcpy(&read.uuid, &uuid, sizeof(uuid));
  }
  // The LUID stays zero: only Windows names adapters so.
  const PropertyReader reader(table, device);
  read_limits(read, reader);
  read_textures(read, reader);
  read_features(read, reader);
  *prop = read;
  return cudaSuccess;
}

/// The driver's handle of an ordinal.
cudaError_t device_handle(const DriverTable& table, int ordinal, CUdevice* device) {
  return table.cuDeviceGet(device, ordinal) == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidDevice;
}

/// Calls `body(handle)` for the thread's device, without making a context.
template <typename Body>
cudaError_t with_device(const DriverTable& table, Body&& body) {
  int ordinal = 0;
  CUdevice device = 0;
  cudaError_t error = current_device(&ordinal);
  if (error == cudaSuccess) error = device_handle(table, ordinal, &device);
  return error != cudaSuccess ? error : to_error(body(device));
}

}  // namespace

SIMGPU_EXPORT cudaError_t cudaGetDeviceCount(int* count) {
  if (count == nullptr) return record(cudaErrorInvalidValue);
  // A program that does not look at the error then finds no device.
  if (ensure_driver() != cudaSuccess) *count = 0;
  return with_driver([&](const DriverTable& d) { return d.cuDeviceGetCount(count); });
}

SIMGPU_EXPORT cudaError_t cudaGetDevice(int* device) {
  if (device == nullptr) return record(cudaErrorInvalidValue);
  return with_driver([&](const DriverTable&) { return current_device(device); });
}

SIMGPU_EXPORT cudaError_t cudaSetDevice(int device) {
  return with_driver([&](const DriverTable&) { return select_device(device); });
}

SIMGPU_EXPORT cudaError_t cudaInitDevice(int device, unsigned int device_flags,
                                         unsigned int flags) {
  return with_driver([&](const DriverTable& d) {
    CUdevice handle = 0;
    cudaError_t error = device_handle(d, device, &handle);
    if (error == cudaSuccess && (flags & cudaInitDeviceFlagsAreValid) != 0) {
      error = to_error(d.cuDevicePrimaryCtxSetFlags(handle, device_flags));
    }
    CUcontext context = nullptr;
    return error != cudaSuccess ? error : primary_context(device, &context);
  });
}

SIMGPU_EXPORT cudaError_t cudaSetValidDevices(int* device_arr, int len) {
  return with_driver([&](const DriverTable& d) {
    for (int i = 0; i < len; ++i) {
      CUdevice handle = 0;
      if (device_handle(d, device_arr[i], &handle) != cudaSuccess) return cudaErrorInvalidDevice;
    }
    return cudaSuccess;
  });
}

SIMGPU_EXPORT cudaError_t cudaChooseDevice(int* device, const cudaDeviceProp* prop) {
  if (device == nullptr || prop == nullptr) return record(cudaErrorInvalidValue);
  return with_driver([&](const DriverTable& d) {
    int count = 0;
    CUresult result = d.cuDeviceGetCount(&count);
    if (result != CUDA_SUCCESS) return to_error(result);
    // The first device that has the memory and the capability asked for, or else device 0.
    int chosen = 0;
    for (int i = count - 1; i >= 0; --i) {
      cudaDeviceProp candidate{};
      const cudaError_t error = read_properties(d, i, &candidate);
      if (error != cudaSuccess) return error;
      if (candidate.totalGlobalMem >= prop->totalGlobalMem && candidate.major >= prop->major) {
        chosen = i;
      }
    }
    *device = chosen;
    return cudaSuccess;
  });
}

SIMGPU_EXPORT cudaError_t cudaGetDeviceProperties(cudaDeviceProp* prop, int device) {
  if (prop == nullptr) return record(cudaErrorInvalidValue);
  return with_driver([&](const DriverTable& d) { return read_properties(d, device, prop); });
}

SIMGPU_EXPORT cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attr, int device) {
  if (value == nullptr) return record(cudaErrorInvalidValue);
  return with_driver([&](const DriverTable& d) {
    CUdevice handle = 0;
    const cudaError_t error = device_handle(d, device, &handle);
    if (error != cudaSuccess) return error;
    return to_error(d.cuDeviceGetAttribute(value, to_attribute(attr), handle));
  });
}

SIMGPU_EXPORT cudaError_t cudaSetDeviceFlags(unsigned int flags) {
  return with_driver([&](const DriverTable& d) {
    return with_device(
        d, [&](CUdevice device) { return d.cuDevicePrimaryCtxSetFlags(device, flags); });
  });
}

SIMGPU_EXPORT cudaError_t cudaGetDeviceFlags(unsigned int* flags) {
  if (flags == nullptr) return record(cudaErrorInvalidValue);
  return with_driver([&](const DriverTable& d) {
    return with_device(d, [&](CUdevice device) {
      int active = 0;
      return d.cuDevicePrimaryCtxGetState(device, flags, &active);
    });
  });
}

SIMGPU_EXPORT cudaError_t cudaDeviceReset() {
  return with_driver([](const DriverTable&) { return reset_device(); });
}

SIMGPU_EXPORT cudaError_t cudaDeviceSynchronize() {
  return with_context([](const DriverTable& d) { return d.cuCtxSynchronize(); });
}

SIMGPU_EXPORT cudaError_t cudaDeviceSetLimit(cudaLimit limit, size_t value) {
  return with_context(
      [&](const DriverTable& d) { return d.cuCtxSetLimit(static_cast<CUlimit>(limit), value); });
}

SIMGPU_EXPORT cudaError_t cudaDeviceGetLimit(size_t* p_value, cudaLimit limit) {
  return with_context(
      [&](const DriverTable& d) { return d.cuCtxGetLimit(p_value, static_cast<CUlimit>(limit)); });
}

SIMGPU_EXPORT cudaError_t cudaDeviceGetCacheConfig(cudaFuncCache* p_cache_config) {
  if (p_cache_config == nullptr) return record(cudaErrorInvalidValue);
  return with_context([&](const DriverTable& d) {
    CUfunc_cache config = CU_FUNC_CACHE_PREFER_NONE;
    const CUresult result = d.cuCtxGetCacheConfig(&config);
    if (result == CUDA_SUCCESS) *p_cache_config = static_cast<cudaFuncCache>(config);
    return result;
  });
}

SIMGPU_EXPORT cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache cache_config) {
  return with_context([&](const DriverTable& d) {
    return d.cuCtxSetCacheConfig(static_cast<CUfunc_cache>(cache_config));
  });
}

SIMGPU_EXPORT cudaError_t cudaDeviceGetSharedMemConfig(cudaSharedMemConfig* p_config) {
  if (p_config == nullptr) return record(cudaErrorInvalidValue);
  // Banks have been four bytes wide, and not configurable, since compute capability 5.
  *p_config = cudaSharedMemBankSizeFourByte;
  return cudaSuccess;
}

SIMGPU_EXPORT cudaError_t cudaDeviceSetSharedMemConfig(cudaSharedMemConfig) { return cudaSuccess; }

SIMGPU_EXPORT cudaError_t cudaDeviceGetStreamPriorityRange(int* least_priority,
                                                           int* greatest_priority) {
  return with_context([&](const DriverTable& d) {
    return d.cuCtxGetStreamPriorityRange(least_priority, greatest_priority);
  });
}

SIMGPU_EXPORT cudaError_t cudaDeviceGetPCIBusId(char* pci_bus_id, int len, int device) {
  return with_driver([&](const DriverTable& d) {
    CUdevice handle = 0;
    const cudaError_t error = device_handle(d, device, &handle);
    return error != cudaSuccess ? error : to_error(d.cuDeviceGetPCIBusId(pci_bus_id, len, handle));
  });
}

SIMGPU_EXPORT cudaError_t cudaDeviceGetByPCIBusId(int* device, const char* pci_bus_id) {
  return with_driver(
      [&](const DriverTable& d) { return d.cuDeviceGetByPCIBusId(device, pci_bus_id); });
}

SIMGPU_EXPORT cudaError_t cudaDeviceCanAccessPeer(int* can_access_peer, int device,
                                                  int peer_device) {
  return with_driver([&](const DriverTable& d) {
    return d.cuDeviceCanAccessPeer(can_access_peer, device, peer_device);
  });
}

SIMGPU_EXPORT cudaError_t cudaDeviceGetP2PAttribute(int* value, cudaDeviceP2PAttr attr,
                                                    int src_device, int dst_device) {
  return with_driver([&](const DriverTable& d) {
    return d.cuDeviceGetP2PAttribute(value, static_cast<CUdevice_P2PAttribute>(attr), src_device,
                                     dst_device);
  });
}

SIMGPU_EXPORT cudaError_t cudaDeviceEnablePeerAccess(int peer_device, unsigned int flags) {
  return with_context([&](const DriverTable& d) {
    CUcontext peer = nullptr;
    const cudaError_t error = primary_context(peer_device, &peer);
    return error != cudaSuccess ? error : to_error(d.cuCtxEnablePeerAccess(peer, flags));
  });
}

SIMGPU_EXPORT cudaError_t cudaDeviceDisablePeerAccess(int peer_device) {
  return with_context([&](const DriverTable& d) {
    CUcontext peer = nullptr;
    const cudaError_t error = primary_context(peer_device, &peer);
    return error != cudaSuccess ? error : to_error(d.cuCtxDisablePeerAccess(peer));
  });
}

SIMGPU_EXPORT cudaError_t cudaCtxResetPersistingL2Cache() {
  return with_context([](const DriverTable& d) { return d.cuCtxResetPersistingL2Cache(); });
}

SIMGPU_EXPORT cudaError_t cudaDriverGetVersion(int* driver_version) {
  if (driver_version == nullptr) return record(cudaErrorInvalidValue);
  // Without a driver the version is 0, and that is no error.
  if (ensure_driver() != cudaSuccess) {
    *driver_version = 0;
    return cudaSuccess;
  }
  return with_driver([&](const DriverTable& d) { return d.cuDriverGetVersion(driver_version); });
}

SIMGPU_EXPORT cudaError_t cudaRuntimeGetVersion(int* runtime_version) {
  if (runtime_version == nullptr) return record(cudaErrorInvalidValue);
  *runtime_version = SIMGPU_CUDART_VERSION;
  return cudaSuccess;
}

SIMGPU_EXPORT cudaError_t cudaProfilerStart() {
  return with_context([](const DriverTable& d) { return d.cuProfilerStart(); });
}

SIMGPU_EXPORT cudaError_t cudaProfilerStop() {
  return with_context([](const DriverTable& d) { return d.cuProfilerStop(); });
}

}  // namespace simgpu::cudart
