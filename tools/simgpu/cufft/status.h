// The parts of cuFFT's binary interface that the stand-in answers with.
#pragma once

namespace simgpu::cufft {

/// cufftResult. Source: cuFFT, "cufftResult".
enum Status : int {
  kSuccess = 0,
  kInvalidPlan = 1,
  kAllocFailed = 2,
  kInvalidType = 3,
  kInvalidValue = 4,
  kExecFailed = 6,
  kSetupFailed = 7,
  kInvalidSize = 8,
  kNotSupported = 16,
};

}  // namespace simgpu::cufft
