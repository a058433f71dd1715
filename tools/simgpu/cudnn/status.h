// The parts of cuDNN's binary interface that the stand-in answers with. NVIDIA's header is not
// needed to build it: toolkits lack it.
#pragma once

namespace simgpu::cudnn {

/// cudnnStatus_t. Source: cuDNN, "cudnnStatus_t".
enum Status : int {
  kSuccess = 0,
  kNotInitialized = 1001,
  kBadParam = 2000,
  kNotSupported = 3000,
  kAllocFailed = 4003,
  kExecutionFailed = 5000,
};

}  // namespace simgpu::cudnn
