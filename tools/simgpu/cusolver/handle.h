// What a cusolverDnHandle_t or cusolverSpHandle_t points to.
#pragma once

#include <cuda.h>

namespace simgpu::cusolver {

/// As with NVIDIA's library, one thread at a time.
struct Handle {
  CUstream stream = nullptr;
  int deterministic_mode = 1;
};

/// What gesvdjInfo_t, syevjInfo_t and cusolverDnParams_t point to: nothing of it is used but what a
/// program asks for again.
struct Parameters {
  double tolerance = 0;
  int most_sweeps = 100;
  int sorts = 1;
};

}  // namespace simgpu::cusolver
