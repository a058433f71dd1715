// The parts of cuBLAS's binary interface that the stand-ins answer with. NVIDIA's header is not
// needed to build them: toolkits assembled from Python packages lack it.
#pragma once

namespace simgpu::cublas {

/// cublasStatus_t. Source: cuBLAS, "cublasStatus_t".
enum Status : int {
  kSuccess = 0,
  kNotInitialized = 1,
  kAllocFailed = 3,
  kInvalidValue = 7,
  kExecutionFailed = 13,
  kNotSupported = 15,
};

/// cublasPointerMode_t: where alpha, beta and results of one value lie.
enum PointerMode : int { kHost = 0, kDevice = 1 };

}  // namespace simgpu::cublas
