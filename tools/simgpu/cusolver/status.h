// The parts of cuSOLVER's binary interface that the stand-in answers with.
#pragma once

namespace simgpu::cusolver {

/// cusolverStatus_t. Source: cuSOLVER, "cuSolver Status Return Types".
enum Status : int {
  kSuccess = 0,
  kNotInitialized = 1,
  kAllocFailed = 2,
  kInvalidValue = 3,
  kExecutionFailed = 6,
  kNotSupported = 9,
};

}  // namespace simgpu::cusolver
