// What a cublasHandle_t points to.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "tools/simgpu/cublas/status.h"
#include "tools/simgpu/product_kernel.h"

namespace simgpu::cublas {

/// As with NVIDIA's library, one thread at a time.
struct Handle {
  CUstream stream = nullptr;
  int pointer_mode = kHost;
  int math_mode = 0;
  int atomics_mode = 0;
  int multiprocessors = 0;  ///< that a kernel shall take; 0: the library chooses
};

/// A factor of `bytes` that the routine reads on the device; none if the pointer mode says that it
/// lies on the host.
inline ProductOperand scalar(const Handle& handle, const void* value, std::uint64_t bytes) {
  return handle.pointer_mode == kDevice ? ProductOperand{value, bytes} : ProductOperand{};
}

}  // namespace simgpu::cublas
