// What a cudnnHandle_t points to.
#pragma once

#include <cuda.h>

namespace simgpu::cudnn {

/// As with NVIDIA's library, one thread at a time.
struct Handle {
  CUstream stream = nullptr;
};

}  // namespace simgpu::cudnn
