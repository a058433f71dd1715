// The one translation of our Status to the driver's codes.
#pragma once

#include "interposer/driver/cuda_api.h"
#include "residency/result.h"

namespace superpipe {

/// What kind of call answers: the driver documents different codes for each.
enum class CallKind {
  kAllocation,  ///< may return CUDA_ERROR_OUT_OF_MEMORY
  kSubmission,  ///< launches, copies, memsets, frees: those document it not, but "error codes from
                ///< previous, asynchronous launches"
};

/// `status` as the driver would say it.
[[nodiscard]] constexpr CUresult to_curesult(Status status, CallKind kind) {
  switch (status) {
    case Status::kOk:
      return CUDA_SUCCESS;
    case Status::kOutOfDeviceMemory:
    case Status::kOutOfHostMemory:
    case Status::kWorkingSetTooLarge:
    case Status::kNotYet:
    // Not CUDA_ERROR_LAUNCH_TIMEOUT, after which the driver has the process lose its context.
    case Status::kTimedOut:
      return kind == CallKind::kAllocation ? CUDA_ERROR_OUT_OF_MEMORY
                                           : CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    case Status::kInvalidValue:
      return CUDA_ERROR_INVALID_VALUE;
    case Status::kCapturing:
      return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    case Status::kDeviceError:
      return kind == CallKind::kAllocation ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_LAUNCH_FAILED;
  }
  return CUDA_ERROR_UNKNOWN;
}

/// A driver code that one of our own calls returned, as residency understands it.
[[nodiscard]] constexpr Status to_status(CUresult result) {
  switch (result) {
    case CUDA_SUCCESS:
      return Status::kOk;
    case CUDA_ERROR_OUT_OF_MEMORY:
      return Status::kOutOfDeviceMemory;
    case CUDA_ERROR_INVALID_VALUE:
      return Status::kInvalidValue;
    default:
      return Status::kDeviceError;
  }
}

}  // namespace superpipe
