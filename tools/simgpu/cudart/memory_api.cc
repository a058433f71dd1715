// Memory: device, host, managed, pointers, memory shared between processes.

#include <cstring>
#include <iterator>

#include "tools/simgpu/cudart/runtime.h"

namespace simgpu::cudart {
namespace {

/// The element size to pass to cuMemAllocPitch, which the runtime does not know: the largest that
/// it takes, whose alignment serves all.
constexpr unsigned kPitchElementBytes = 16;

CUdeviceptr* as_device(void** pointer) { return reinterpret_cast<CUdeviceptr*>(pointer); }

/// cuMemPrefetchAsync and cuMemAdvise take the runtime's locations as they are.
static_assert(sizeof(cudaMemLocation) == sizeof(CUmemLocation));
CUmemLocation to_location(cudaMemLocation location) {
  CUmemLocation converted{};
  std::memcpy(&converted, &location, sizeof(converted));
  return converted;
}

cudaMemoryType to_memory_type(unsigned type, bool managed) {
  if (managed) return cudaMemoryTypeManaged;
  return type == CU_MEMORYTYPE_HOST ? cudaMemoryTypeHost : cudaMemoryTypeDevice;
}

}  // namespace

SIMGPU_EXPORT cudaError_t cudaMalloc(void** dev_ptr, size_t size) {
  return with_context([&](const DriverTable& d) {
    if (dev_ptr == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (size == 0) {  // no error for the runtime, unlike for the driver
      *dev_ptr = nullptr;
      return CUDA_SUCCESS;
    }
    return d.cuMemAlloc(as_device(dev_ptr), size);
  });
}

SIMGPU_EXPORT cudaError_t cudaFree(void* dev_ptr) {
  return with_context([&](const DriverTable& d) {
    return dev_ptr == nullptr ? CUDA_SUCCESS : d.cuMemFree(to_device(dev_ptr));
  });
}

SIMGPU_EXPORT cudaError_t cudaMallocPitch(void** dev_ptr, size_t* pitch, size_t width,
                                          size_t height) {
  return with_context([&](const DriverTable& d) {
    if (dev_ptr == nullptr || pitch == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (width == 0 || height == 0) {
      *dev_ptr = nullptr;
      *pitch = 0;
      return CUDA_SUCCESS;
    }
    return d.cuMemAllocPitch(as_device(dev_ptr), pitch, width, height, kPitchElementBytes);
  });
}

SIMGPU_EXPORT cudaError_t cudaMalloc3D(cudaPitchedPtr* pitched_dev_ptr, cudaExtent extent) {
  if (pitched_dev_ptr == nullptr) return record(cudaErrorInvalidValue);
  void* pointer = nullptr;
  size_t pitch = 0;
  const cudaError_t error =
      cudaMallocPitch(&pointer, &pitch, extent.width, extent.height * extent.depth);
  if (error == cudaSuccess) *pitched_dev_ptr = {pointer, pitch, extent.width, extent.height};
  return error;
}

SIMGPU_EXPORT cudaError_t cudaMallocManaged(void** dev_ptr, size_t size, unsigned int flags) {
  return with_context(
      [&](const DriverTable& d) { return d.cuMemAllocManaged(as_device(dev_ptr), size, flags); });
}

SIMGPU_EXPORT cudaError_t cudaMallocHost(void** ptr, size_t size) {
  return with_context([&](const DriverTable& d) {
    if (ptr == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (size == 0) {
      *ptr = nullptr;
      return CUDA_SUCCESS;
    }
    return d.cuMemAllocHost(ptr, size);
  });
}

SIMGPU_EXPORT cudaError_t cudaHostAlloc(void** p_host, size_t size, unsigned int flags) {
  return with_context([&](const DriverTable& d) {
    if (p_host == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (size == 0) {
      *p_host = nullptr;
      return CUDA_SUCCESS;
    }
    return d.cuMemHostAlloc(p_host, size, flags);
  });
}

SIMGPU_EXPORT cudaError_t cudaFreeHost(void* ptr) {
  return with_context(
      [&](const DriverTable& d) { return ptr == nullptr ? CUDA_SUCCESS : d.cuMemFreeHost(ptr); });
}

SIMGPU_EXPORT cudaError_t cudaHostRegister(void* ptr, size_t size, unsigned int flags) {
  return with_context([&](const DriverTable& d) { return d.cuMemHostRegister(ptr, size, flags); });
}

SIMGPU_EXPORT cudaError_t cudaHostUnregister(void* ptr) {
  return with_context([&](const DriverTable& d) { return d.cuMemHostUnregister(ptr); });
}

SIMGPU_EXPORT cudaError_t cudaHostGetDevicePointer(void** p_device, void* p_host,
                                                   unsigned int flags) {
  return with_context([&](const DriverTable& d) {
    return d.cuMemHostGetDevicePointer(as_device(p_device), p_host, flags);
  });
}

SIMGPU_EXPORT cudaError_t cudaHostGetFlags(unsigned int* p_flags, void* p_host) {
  return with_context([&](const DriverTable& d) { return d.cuMemHostGetFlags(p_flags, p_host); });
}

SIMGPU_EXPORT cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  return with_context([&](const DriverTable& d) { return d.cuMemGetInfo(free, total); });
}

SIMGPU_EXPORT cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes,
                                                   const void* ptr) {
  return with_context([&](const DriverTable& d) {
    if (attributes == nullptr) return CUDA_ERROR_INVALID_VALUE;
    unsigned type = 0;
    CUdeviceptr device_pointer = 0;
    void* host_pointer = nullptr;
    int managed = 0;
    int ordinal = 0;
    CUpointer_attribute wanted[] = {
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
        CU_POINTER_ATTRIBUTE_HOST_POINTER, CU_POINTER_ATTRIBUTE_IS_MANAGED,
        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    void* values[] = {&type, &device_pointer, &host_pointer, &managed, &ordinal};
    const CUresult result = d.cuPointerGetAttributes(static_cast<unsigned>(std::size(wanted)),
                                                     wanted, values, to_device(ptr));
    if (result != CUDA_SUCCESS) return result;
    cudaPointerAttributes found{};
    if (type == 0) {  // memory that CUDA does not know is no error for this call
      found.type = cudaMemoryTypeUnregistered;
      found.device = cudaInvalidDeviceId;
      found.hostPointer = const_cast<void*>(ptr);
    } else {
      found.type = to_memory_type(type, managed != 0);
      found.device = ordinal;
      found.devicePointer = reinterpret_cast<void*>(device_pointer);
      found.hostPointer = host_pointer;
    }
    *attributes = found;
    return CUDA_SUCCESS;
  });
}

SIMGPU_EXPORT cudaError_t cudaMemPrefetchAsync(const void* dev_ptr, size_t count,
                                               cudaMemLocation location, unsigned int flags,
                                               cudaStream_t stream) {
  return with_context([&](const DriverTable& d) {
    return d.cuMemPrefetchAsync(to_device(dev_ptr), count, to_location(location), flags, stream);
  });
}

SIMGPU_EXPORT cudaError_t cudaMemAdvise(const void* dev_ptr, size_t count, cudaMemoryAdvise advice,
                                        cudaMemLocation location) {
  return with_context([&](const DriverTable& d) {
    return d.cuMemAdvise(to_device(dev_ptr), count, static_cast<CUmem_advise>(advice),
                         to_location(location));
  });
}

SIMGPU_EXPORT cudaError_t cudaMemRangeGetAttribute(void* data, size_t data_size,
                                                   cudaMemRangeAttribute attribute,
                                                   const void* dev_ptr, size_t count) {
  return with_context([&](const DriverTable& d) {
    return d.cuMemRangeGetAttribute(data, data_size, static_cast<CUmem_range_attribute>(attribute),
                                    to_device(dev_ptr), count);
  });
}

SIMGPU_EXPORT cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* dev_ptr) {
  static_assert(sizeof(cudaIpcMemHandle_t) == sizeof(CUipcMemHandle));
  return with_context([&](const DriverTable& d) {
    return d.cuIpcGetMemHandle(reinterpret_cast<CUipcMemHandle*>(handle), to_device(dev_ptr));
  });
}

SIMGPU_EXPORT cudaError_t cudaIpcOpenMemHandle(void** dev_ptr, cudaIpcMemHandle_t handle,
                                               unsigned int flags) {
  return with_context([&](const DriverTable& d) {
    CUipcMemHandle converted{};
    std::memcpy(&converted, &handle, sizeof(converted));
    return d.cuIpcOpenMemHandle(as_device(dev_ptr), converted, flags);
  });
}

SIMGPU_EXPORT cudaError_t cudaIpcCloseMemHandle(void* dev_ptr) {
  return with_context(
      [&](const DriverTable& d) { return d.cuIpcCloseMemHandle(to_device(dev_ptr)); });
}

}  // namespace simgpu::cudart
