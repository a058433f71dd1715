// simgpu's libcudnn.so.9: handles, and what the library says of itself.
#include <array>
#include <cstddef>
#include <cstdio>
#include <new>

#include "tools/simgpu/cublas/launch.h"
#include "tools/simgpu/cudnn/handle.h"
#include "tools/simgpu/cudnn/status.h"
#include "tools/simgpu/export.h"

namespace simgpu::cudnn {
namespace {

/// The version that the library passes for: 10000 * major + 100 * minor + patch. Programs refuse
/// one older than what they were built with.
constexpr int kVersion = 92800;

struct StatusWords {
  int status;
  const char* name;
};
constexpr std::array<StatusWords, 6> kStatusWords{{
    {kSuccess, "CUDNN_STATUS_SUCCESS"},
    {kNotInitialized, "CUDNN_STATUS_NOT_INITIALIZED"},
    {kBadParam, "CUDNN_STATUS_BAD_PARAM"},
    {kNotSupported, "CUDNN_STATUS_NOT_SUPPORTED"},
    {kAllocFailed, "CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED"},
    {kExecutionFailed, "CUDNN_STATUS_EXECUTION_FAILED"},
}};

}  // namespace

SIMGPU_EXPORT int cudnnCreate(Handle** handle) {
  if (handle == nullptr) return kBadParam;
  if (cublas::check_context() != cublas::kSuccess) return kNotInitialized;
  *handle = new (std::nothrow) Handle;
  return *handle == nullptr ? kAllocFailed : kSuccess;
}

SIMGPU_EXPORT int cudnnDestroy(Handle* handle) {
  delete handle;  // null is allowed
  return kSuccess;
}

SIMGPU_EXPORT int cudnnSetStream(Handle* handle, CUstream stream) {
  if (handle == nullptr) return kBadParam;
  handle->stream = stream;
  return kSuccess;
}

SIMGPU_EXPORT int cudnnGetStream(Handle* handle, CUstream* stream) {
  if (handle == nullptr || stream == nullptr) return kBadParam;
  *stream = handle->stream;
  return kSuccess;
}

SIMGPU_EXPORT std::size_t cudnnGetVersion() { return kVersion; }
SIMGPU_EXPORT std::size_t cudnnGetMaxDeviceVersion() { return 1200; }
SIMGPU_EXPORT std::size_t cudnnGetCudartVersion() { return 13000; }

/// `property`: libraryPropertyType, 0 to 2.
SIMGPU_EXPORT int cudnnGetProperty(int property, int* value) {
  constexpr std::array kParts{kVersion / 10000, kVersion / 100 % 100, kVersion % 100};
  if (value == nullptr || property < 0 || property >= static_cast<int>(kParts.size())) {
    return kBadParam;
  }
  *value = kParts[static_cast<std::size_t>(property)];
  return kSuccess;
}

SIMGPU_EXPORT const char* cudnnGetErrorString(int status) {
  for (const StatusWords& words : kStatusWords) {
    if (words.status == status) return words.name;
  }
  return "CUDNN_STATUS_UNKNOWN";
}

/// Nothing more is known of an error than its code.
SIMGPU_EXPORT void cudnnGetLastErrorString(char* text, std::size_t size) {
  if (text != nullptr && size > 0) *text = '\0';
}

/// Nothing is logged, whatever is asked for.
SIMGPU_EXPORT int cudnnSetCallback(unsigned /*mask*/, void* /*data*/, void* /*function*/) {
  return kSuccess;
}

// All parts are of one version.
SIMGPU_EXPORT int cudnnGraphVersionCheck() { return kSuccess; }
SIMGPU_EXPORT int cudnnOpsVersionCheck() { return kSuccess; }
SIMGPU_EXPORT int cudnnCnnVersionCheck() { return kSuccess; }
SIMGPU_EXPORT int cudnnAdvVersionCheck() { return kSuccess; }

}  // namespace simgpu::cudnn
