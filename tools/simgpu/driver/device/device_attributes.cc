// The driver functions that describe devices. They describe an H200, without the features that
// simgpu does not have.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <limits>
#include <string_view>

#include "tools/simgpu/driver/device/device.h"
#include "tools/simgpu/driver/device/identity.h"
#include "tools/simgpu/driver/process/configuration.h"

namespace simgpu {
namespace {

constexpr int kBusBits = 6144;

struct Attribute {
  CUdevice_attribute attribute;
  int value;
};

/// Every other attribute is 0, because it is unsupported or has no meaning for a device in
/// software. Unsupported are, among others, shareable handles, managed memory and stream memory
/// operations.
constexpr Attribute kAttributes[] = {
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 2147483647},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 49152},
    {CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, 65536},
    {CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
    {CU_DEVICE_ATTRIBUTE_MAX_PITCH, 2147483647},
    {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 65536},
    {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1980000},
    {CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, 512},
    {CU_DEVICE_ATTRIBUTE_GPU_OVERLAP, 1},
    {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 132},
    {CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_WIDTH, 131072},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_WIDTH, 131072},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_HEIGHT, 65536},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH, 16384},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT, 16384},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH, 16384},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_WIDTH, 32768},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_HEIGHT, 32768},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_LAYERS, 2048},
    {CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT, 512},
    {CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1},
    {CU_DEVICE_ATTRIBUTE_ECC_ENABLED, 1},
    {CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, kBusBits},
    {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 62914560},
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 2048},
    {CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 2},
    {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_WIDTH, 32768},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_LAYERS, 2048},
    {CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT, 32},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_WIDTH, 32768},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_WIDTH, 131072},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_HEIGHT, 65536},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH, 268435456},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_WIDTH, 131072},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_HEIGHT, 65000},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_PITCH, 2097120},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, kCapabilityMajor},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, kCapabilityMinor},
    {CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 233472},
    {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, 65536},
    {CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO, 2},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 1},
    {CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 1},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 232448},
    {CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES, 1},
    {CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, 32},
    {CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE, 32768000},
    {CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE, 134213632},
    {CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK, 1024},
    {CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, 1},
    {CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS, 1},
    {CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_MEM_SYNC_DOMAIN_COUNT, 4},
    {CU_DEVICE_ATTRIBUTE_NUMA_ID, -1},
};

CUresult get_uuid(CUuuid* uuid, CUdevice ordinal) {
  SIMGPU_ENTER(cuDeviceGetUuid);
  if (uuid == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (find_device(ordinal) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  std::memcpy(uuid->bytes, uuid_of(ordinal).data(), sizeof(uuid->bytes));
  return CUDA_SUCCESS;
}

}  // namespace

int attribute_of(const Device& device, CUdevice_attribute attribute) noexcept {
  if (attribute == CU_DEVICE_ATTRIBUTE_PCI_BUS_ID) return device.ordinal() + 1;
  // In kHz: what the bus then carries, twice in each clock, is the card's bandwidth.
  if (attribute == CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE) {
    constexpr double kBytesOfClock = 2.0 * kBusBits / 8;
    constexpr double kMost = std::numeric_limits<int>::max();
    return static_cast<int>(
        std::min(configuration().card.memory_gbps * 1e6 / kBytesOfClock, kMost));
  }
  const bool has_host_pages = configuration().host_pages != HostPagePolicy::kOff;
  if (attribute == CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED ||
      attribute == CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) {
    return has_host_pages ? 1 : 0;
  }
  if (attribute == CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID) return has_host_pages ? 0 : -1;
  for (const Attribute& known : kAttributes) {
    if (known.attribute == attribute) return known.value;
  }
  return 0;
}

SIMGPU_EXPORT CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  SIMGPU_ENTER(cuDeviceGet);
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (find_device(ordinal) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuDeviceGetCount(int* count) {
  SIMGPU_ENTER(cuDeviceGetCount);
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *count = device_count();
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuDeviceGetName(char* name, int len, CUdevice dev) {
  SIMGPU_ENTER(cuDeviceGetName);
  if (name == nullptr || len <= 0) return CUDA_ERROR_INVALID_VALUE;
  if (find_device(dev) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  std::snprintf(name, static_cast<std::size_t>(len), "%s", kDeviceName);
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice dev) { return get_uuid(uuid, dev); }
SIMGPU_EXPORT CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice dev) {
  return get_uuid(uuid, dev);
}

SIMGPU_EXPORT CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice dev) {
  SIMGPU_ENTER(cuDeviceTotalMem);
  if (bytes == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Device* const device = find_device(dev);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  *bytes = device->capacity();
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuDeviceComputeCapability(int* major, int* minor, CUdevice dev) {
  SIMGPU_ENTER(cuDeviceComputeCapability);
  if (major == nullptr || minor == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (find_device(dev) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  *major = kCapabilityMajor;
  *minor = kCapabilityMinor;
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuDeviceGetAttribute(int* pi, CUdevice_attribute attrib, CUdevice dev) {
  SIMGPU_ENTER(cuDeviceGetAttribute);
  if (pi == nullptr || attrib <= 0 || attrib >= CU_DEVICE_ATTRIBUTE_MAX) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const Device* const device = find_device(dev);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  *pi = attribute_of(*device, attrib);
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuDeviceGetProperties(CUdevprop* prop, CUdevice dev) {
  SIMGPU_ENTER(cuDeviceGetProperties);
  if (prop == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Device* const device = find_device(dev);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  const auto value = [&](CUdevice_attribute attribute) { return attribute_of(*device, attribute); };
  prop->maxThreadsPerBlock = value(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  prop->maxThreadsDim[0] = value(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X);
  prop->maxThreadsDim[1] = value(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y);
  prop->maxThreadsDim[2] = value(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z);
  prop->maxGridSize[0] = value(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X);
  prop->maxGridSize[1] = value(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y);
  prop->maxGridSize[2] = value(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z);
  prop->sharedMemPerBlock = value(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
  prop->totalConstantMemory = value(CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY);
  prop->SIMDWidth = value(CU_DEVICE_ATTRIBUTE_WARP_SIZE);
  prop->memPitch = value(CU_DEVICE_ATTRIBUTE_MAX_PITCH);
  prop->regsPerBlock = value(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK);
  prop->clockRate = value(CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
  prop->textureAlign = value(CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT);
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuDeviceGetPCIBusId(char* pciBusId, int len, CUdevice dev) {
  SIMGPU_ENTER(cuDeviceGetPCIBusId);
  if (pciBusId == nullptr || len < 13) return CUDA_ERROR_INVALID_VALUE;
  if (find_device(dev) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  std::snprintf(pciBusId, static_cast<std::size_t>(len), "%s", bus_id_of(dev).data());
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuDeviceGetByPCIBusId(CUdevice* dev, const char* pciBusId) {
  SIMGPU_ENTER(cuDeviceGetByPCIBusId);
  if (dev == nullptr || pciBusId == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (int ordinal = 0; ordinal < device_count(); ++ordinal) {
    const auto full = bus_id_of(ordinal);
    // The domain, and the function, may be left out.
    const std::string_view text{full.data()};
    const std::string_view asked{pciBusId};
    if (asked == text || asked == text.substr(5) || asked == text.substr(0, 10) ||
        asked == text.substr(5, 5)) {
      *dev = ordinal;
      return CUDA_SUCCESS;
    }
  }
  return CUDA_ERROR_INVALID_DEVICE;
}

SIMGPU_EXPORT CUresult cuDeviceCanAccessPeer(int* canAccessPeer, CUdevice dev, CUdevice peerDev) {
  SIMGPU_ENTER(cuDeviceCanAccessPeer);
  if (canAccessPeer == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (find_device(dev) == nullptr || find_device(peerDev) == nullptr) {
    return CUDA_ERROR_INVALID_DEVICE;
  }
  *canAccessPeer = dev == peerDev ? 0 : 1;
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuDeviceGetP2PAttribute(int* value, CUdevice_P2PAttribute attrib,
                                               CUdevice srcDevice, CUdevice dstDevice) {
  SIMGPU_ENTER(cuDeviceGetP2PAttribute);
  if (value == nullptr || attrib < CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK ||
      attrib > CU_DEVICE_P2P_ATTRIBUTE_ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (srcDevice == dstDevice || find_device(srcDevice) == nullptr ||
      find_device(dstDevice) == nullptr) {
    return CUDA_ERROR_INVALID_DEVICE;
  }
  *value = attrib == CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED ? 1 : 0;
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuDeviceGetExecAffinitySupport(int* pi, CUexecAffinityType type,
                                                      CUdevice dev) {
  SIMGPU_ENTER(cuDeviceGetExecAffinitySupport);
  if (pi == nullptr || type >= CU_EXEC_AFFINITY_TYPE_MAX) return CUDA_ERROR_INVALID_VALUE;
  if (find_device(dev) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  *pi = 0;
  return CUDA_SUCCESS;
}

}  // namespace simgpu
