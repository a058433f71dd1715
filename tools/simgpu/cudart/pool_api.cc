// Stream-ordered allocation and its pools.

#include "tools/simgpu/cudart/runtime.h"

using simgpu::cudart::DriverTable;
using simgpu::cudart::record;
using simgpu::cudart::to_device;
using simgpu::cudart::to_error;
using simgpu::cudart::with_context;
using simgpu::cudart::with_driver;

namespace {

static_assert(sizeof(cudaMemPoolProps) == sizeof(CUmemPoolProps));
static_assert(sizeof(cudaMemAccessDesc) == sizeof(CUmemAccessDesc));
static_assert(static_cast<int>(cudaMemPoolAttrUsedMemHigh) == CU_MEMPOOL_ATTR_USED_MEM_HIGH);

// Calls `body(handle)` with the driver's handle of an ordinal.
template <typename Body>
cudaError_t for_device(int ordinal, Body&& body) {
  return with_driver([&](const DriverTable& d) {
    CUdevice device = 0;
    if (d.cuDeviceGet(&device, ordinal) != CUDA_SUCCESS) return cudaErrorInvalidDevice;
    return to_error(body(d, device));
  });
}

}  // namespace

extern "C" {

cudaError_t cudaMallocAsync(void** devPtr, size_t size, cudaStream_t hStream) {
  return with_context([&](const DriverTable& d) {
    if (devPtr == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (size == 0) {
      *devPtr = nullptr;
      return CUDA_SUCCESS;
    }
    return d.cuMemAllocAsync(reinterpret_cast<CUdeviceptr*>(devPtr), size, hStream);
  });
}

cudaError_t cudaMallocFromPoolAsync(void** ptr, size_t size, cudaMemPool_t memPool,
                                    cudaStream_t stream) {
  return with_context([&](const DriverTable& d) {
    if (ptr == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (size == 0) {
      *ptr = nullptr;
      return CUDA_SUCCESS;
    }
    return d.cuMemAllocFromPoolAsync(reinterpret_cast<CUdeviceptr*>(ptr), size, memPool, stream);
  });
}

cudaError_t cudaFreeAsync(void* devPtr, cudaStream_t hStream) {
  return with_context([&](const DriverTable& d) {
    return devPtr == nullptr ? CUDA_SUCCESS : d.cuMemFreeAsync(to_device(devPtr), hStream);
  });
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* memPool, int device) {
  return for_device(device, [&](const DriverTable& d, CUdevice handle) {
    return d.cuDeviceGetDefaultMemPool(memPool, handle);
  });
}

cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* memPool, int device) {
  return for_device(device, [&](const DriverTable& d, CUdevice handle) {
    return d.cuDeviceGetMemPool(memPool, handle);
  });
}

cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t memPool) {
  return for_device(device, [&](const DriverTable& d, CUdevice handle) {
    return d.cuDeviceSetMemPool(handle, memPool);
  });
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t* memPool, const cudaMemPoolProps* poolProps) {
  return with_context([&](const DriverTable& d) {
    return d.cuMemPoolCreate(memPool, reinterpret_cast<const CUmemPoolProps*>(poolProps));
  });
}

cudaError_t cudaMemPoolDestroy(cudaMemPool_t memPool) {
  return with_context([&](const DriverTable& d) { return d.cuMemPoolDestroy(memPool); });
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t memPool, size_t minBytesToKeep) {
  return with_context(
      [&](const DriverTable& d) { return d.cuMemPoolTrimTo(memPool, minBytesToKeep); });
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t memPool, cudaMemPoolAttr attr, void* value) {
  return with_context([&](const DriverTable& d) {
    return d.cuMemPoolSetAttribute(memPool, static_cast<CUmemPool_attribute>(attr), value);
  });
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t memPool, cudaMemPoolAttr attr, void* value) {
  return with_context([&](const DriverTable& d) {
    return d.cuMemPoolGetAttribute(memPool, static_cast<CUmemPool_attribute>(attr), value);
  });
}

cudaError_t cudaMemPoolSetAccess(cudaMemPool_t memPool, const cudaMemAccessDesc* descList,
                                 size_t count) {
  return with_context([&](const DriverTable& d) {
    return d.cuMemPoolSetAccess(memPool, reinterpret_cast<const CUmemAccessDesc*>(descList), count);
  });
}

cudaError_t cudaMemPoolGetAccess(cudaMemAccessFlags* flags, cudaMemPool_t memPool,
                                 cudaMemLocation* location) {
  static_assert(sizeof(cudaMemLocation) == sizeof(CUmemLocation));
  if (flags == nullptr) return record(cudaErrorInvalidValue);
  return with_context([&](const DriverTable& d) {
    CUmemAccess_flags found = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    const CUresult result =
        d.cuMemPoolGetAccess(&found, memPool, reinterpret_cast<CUmemLocation*>(location));
    if (result == CUDA_SUCCESS) *flags = static_cast<cudaMemAccessFlags>(found);
    return result;
  });
}

}  // extern "C"
