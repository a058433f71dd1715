// Answers of NCCL's functions, as far as simgpu gives them. Source: NCCL, ncclResult_t.
#pragma once

namespace simgpu::nccl {

enum Result : int {
  kSuccess = 0,
  kUnhandledCudaError = 1,
  kSystemError = 2,
  kInvalidArgument = 4,
  kInvalidUsage = 5,
};

}  // namespace simgpu::nccl
