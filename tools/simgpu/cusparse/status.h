// The parts of cuSPARSE's binary interface that the stand-in answers with.
#pragma once

namespace simgpu::cusparse {

/// cusparseStatus_t. Source: cuSPARSE, "cusparseStatus_t".
enum Status : int {
  kSuccess = 0,
  kNotInitialized = 1,
  kAllocFailed = 2,
  kInvalidValue = 3,
  kExecutionFailed = 6,
  kNotSupported = 10,
};

}  // namespace simgpu::cusparse
