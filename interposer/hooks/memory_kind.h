// What the driver says of memory that is not managed.
#pragma once

#include "interposer/driver/cuda_api.h"
#include "interposer/driver/table.h"

namespace superpipe {

/// Whether the driver pins or manages the host memory at `address`: a copy of it is then truly
/// asynchronous, and reads or writes it when the stream gets there.
inline bool is_pinned(const void* address) noexcept {
  unsigned int type = 0;
  return driver().cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                        reinterpret_cast<CUdeviceptr>(address)) == CUDA_SUCCESS;
}

/// Whether the driver has device memory at `address`. It does not know a managed buffer that is not
/// on the device.
inline bool is_device_memory(CUdeviceptr address) noexcept {
  unsigned int type = 0;
  return driver().cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) ==
             CUDA_SUCCESS &&
         type == CU_MEMORYTYPE_DEVICE;
}

/// Whether the driver moves the memory at `address` between the host and the device as they use it
/// (cuMemAllocManaged).
inline bool is_unified_memory(CUdeviceptr address) noexcept {
  unsigned int is_unified = 0;
  return driver().cuPointerGetAttribute(&is_unified, CU_POINTER_ATTRIBUTE_IS_MANAGED, address) ==
             CUDA_SUCCESS &&
         is_unified != 0;
}

}  // namespace superpipe
