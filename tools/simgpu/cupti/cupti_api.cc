// simgpu's libcupti.so.13: tells its version, and profiles nothing.
//
// NVIDIA's own answers an error even to the question for its version where the driver is not
// NVIDIA's, and JAX then takes CUDA for not installed.
#include <cstdint>

#include "tools/simgpu/export.h"

namespace simgpu::cupti {
namespace {

// Source: CUPTI, CUptiResult.
enum Status : int { kSuccess = 0, kInvalidParameter = 1, kNotSupported = 27 };

/// The version of the interface, CUPTI_API_VERSION: of CUDA 13.5, if nothing else is said.
#ifndef SIMGPU_CUPTI_VERSION
#define SIMGPU_CUPTI_VERSION 130500
#endif
constexpr std::uint32_t kVersion = SIMGPU_CUPTI_VERSION;

}  // namespace

SIMGPU_EXPORT int cuptiGetVersion(std::uint32_t* version) {
  if (version == nullptr) return kInvalidParameter;
  *version = kVersion;
  return kSuccess;
}

SIMGPU_EXPORT int cuptiGetResultString(int status, const char** text) {
  if (text == nullptr) return kInvalidParameter;
  switch (status) {
    case kSuccess:
      *text = "CUPTI_SUCCESS";
      break;
    case kInvalidParameter:
      *text = "CUPTI_ERROR_INVALID_PARAMETER";
      break;
    case kNotSupported:
      *text = "CUPTI_ERROR_NOT_SUPPORTED";
      break;
    default:
      *text = "an error that simgpu's CUPTI does not have";
  }
  return kSuccess;
}

}  // namespace simgpu::cupti
