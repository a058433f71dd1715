// Stream-ordered allocation and its pools.

#include "tools/simgpu/cudart/runtime.h"

namespace simgpu::cudart {

namespace {

static_assert(sizeof(cudaMemPoolProps) == sizeof(CUmemPoolProps));
static_assert(sizeof(cudaMemAccessDesc) == sizeof(CUmemAccessDesc));
static_assert(static_cast<int>(cudaMemPoolAttrUsedMemHigh) == CU_MEMPOOL_ATTR_USED_MEM_HIGH);

/// Calls `body(handle)` with the driver's handle of an ordinal.
template <typename Body>
cudaError_t for_device(int ordinal, Body&& body) {
  return with_driver([&](const DriverTable& d) {
    CUdevice device = 0;
    if (d.cuDeviceGet(&device, ordinal) != CUDA_SUCCESS) return cudaErrorInvalidDevice;
    return to_error(body(d, device));
  });
}

}  // namespace

SIMGPU_EXPORT cudaError_t cudaMallocAsync(void** dev_ptr, size_t size, cudaStream_t h_stream) {
  return with_context([&](const DriverTable& d) {
    if (dev_ptr == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (size == 0) {
      *dev_ptr = nullptr;
      return CUDA_SUCCESS;
    }
    return d.cuMemAllocAsync(reinterpret_cast<CUdeviceptr*>(dev_ptr), size, h_stream);
  });
}

SIMGPU_EXPORT cudaError_t cudaMallocFromPoolAsync(void** ptr, size_t size, cudaMemPool_t mem_pool,
                                                  cudaStream_t stream) {
  return with_context([&](const DriverTable& d) {
    if (ptr == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (size == 0) {
      *ptr = nullptr;
      return CUDA_SUCCESS;
    }
    return d.cuMemAllocFromPoolAsync(reinterpret_cast<CUdeviceptr*>(ptr), size, mem_pool, stream);
  });
}

SIMGPU_EXPORT cudaError_t cudaFreeAsync(void* dev_ptr, cudaStream_t h_stream) {
  return with_context([&](const DriverTable& d) {
    return dev_ptr == nullptr ? CUDA_SUCCESS : d.cuMemFreeAsync(to_device(dev_ptr), h_stream);
  });
}

SIMGPU_EXPORT cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* mem_pool, int device) {
  return for_device(device, [&](const DriverTable& d, CUdevice handle) {
    return d.cuDeviceGetDefaultMemPool(mem_pool, handle);
  });
}

SIMGPU_EXPORT cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* mem_pool, int device) {
  return for_device(device, [&](const DriverTable& d, CUdevice handle) {
    return d.cuDeviceGetMemPool(mem_pool, handle);
  });
}

SIMGPU_EXPORT cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t mem_pool) {
  return for_device(device, [&](const DriverTable& d, CUdevice handle) {
    return d.cuDeviceSetMemPool(handle, mem_pool);
  });
}

SIMGPU_EXPORT cudaError_t cudaMemPoolCreate(cudaMemPool_t* mem_pool,
                                            const cudaMemPoolProps* pool_props) {
  return with_context([&](const DriverTable& d) {
    return d.cuMemPoolCreate(mem_pool, reinterpret_cast<const CUmemPoolProps*>(pool_props));
  });
}

SIMGPU_EXPORT cudaError_t cudaMemPoolDestroy(cudaMemPool_t mem_pool) {
  return with_context([&](const DriverTable& d) { return d.cuMemPoolDestroy(mem_pool); });
}

SIMGPU_EXPORT cudaError_t cudaMemPoolTrimTo(cudaMemPool_t mem_pool, size_t min_bytes_to_keep) {
  return with_context(
      [&](const DriverTable& d) { return d.cuMemPoolTrimTo(mem_pool, min_bytes_to_keep); });
}

SIMGPU_EXPORT cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t mem_pool, cudaMemPoolAttr attr,
                                                  void* value) {
  return with_context([&](const DriverTable& d) {
    return d.cuMemPoolSetAttribute(mem_pool, static_cast<CUmemPool_attribute>(attr), value);
  });
}

SIMGPU_EXPORT cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t mem_pool, cudaMemPoolAttr attr,
                                                  void* value) {
  return with_context([&](const DriverTable& d) {
    return d.cuMemPoolGetAttribute(mem_pool, static_cast<CUmemPool_attribute>(attr), value);
  });
}

SIMGPU_EXPORT cudaError_t cudaMemPoolSetAccess(cudaMemPool_t mem_pool,
                                               const cudaMemAccessDesc* desc_list, size_t count) {
  return with_context([&](const DriverTable& d) {
    return d.cuMemPoolSetAccess(mem_pool, reinterpret_cast<const CUmemAccessDesc*>(desc_list),
                                count);
  });
}

SIMGPU_EXPORT cudaError_t cudaMemPoolGetAccess(cudaMemAccessFlags* flags, cudaMemPool_t mem_pool,
                                               cudaMemLocation* location) {
  static_assert(sizeof(cudaMemLocation) == sizeof(CUmemLocation));
  if (flags == nullptr) return record(cudaErrorInvalidValue);
  return with_context([&](const DriverTable& d) {
    CUmemAccess_flags found = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    const CUresult result =
        d.cuMemPoolGetAccess(&found, mem_pool, reinterpret_cast<CUmemLocation*>(location));
    if (result == CUDA_SUCCESS) *flags = static_cast<cudaMemAccessFlags>(found);
    return result;
  });
}

}  // namespace simgpu::cudart
