// Names and texts of errors. The texts that programs are known to compare are those that the
// runtime API documents.

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <string>
#include <string_view>

#include "tools/simgpu/cudart/runtime.h"

namespace simgpu::cudart {
namespace {

struct Name {
  int value;
  const char* name;
};

constexpr Name kNames[] = {
#include "tools/simgpu/cudart/generated/error_names.inc"
};

constexpr Name kTexts[] = {
    {cudaSuccess, "no error"},
    {cudaErrorInvalidValue, "invalid argument"},
    {cudaErrorMemoryAllocation, "out of memory"},
    {cudaErrorInitializationError, "initialization error"},
    {cudaErrorCudartUnloading, "driver shutting down"},
    {cudaErrorInvalidConfiguration, "invalid configuration argument"},
    {cudaErrorInvalidPitchValue, "invalid pitch argument"},
    {cudaErrorInvalidSymbol, "invalid device symbol"},
    {cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy"},
    {cudaErrorInsufficientDriver, "CUDA driver version is insufficient for CUDA runtime version"},
    {cudaErrorMissingConfiguration, "__global__ function call is not configured"},
    {cudaErrorInvalidDeviceFunction, "invalid device function"},
    {cudaErrorNoDevice, "no CUDA-capable device is detected"},
    {cudaErrorInvalidDevice, "invalid device ordinal"},
    {cudaErrorInvalidKernelImage, "device kernel image is invalid"},
    {cudaErrorDeviceUninitialized, "invalid device context"},
    {cudaErrorNoKernelImageForDevice, "no kernel image is available for execution on the device"},
    {cudaErrorInvalidResourceHandle, "invalid resource handle"},
    {cudaErrorSymbolNotFound, "named symbol not found"},
    {cudaErrorNotReady, "device not ready"},
    {cudaErrorIllegalAddress, "an illegal memory access was encountered"},
    {cudaErrorLaunchOutOfResources, "too many resources requested for launch"},
    {cudaErrorLaunchTimeout, "the launch timed out and was terminated"},
    {cudaErrorPeerAccessAlreadyEnabled, "peer access is already enabled"},
    {cudaErrorPeerAccessNotEnabled, "peer access has not been enabled"},
    {cudaErrorContextIsDestroyed, "context is destroyed"},
    {cudaErrorHostMemoryAlreadyRegistered,
     "part or all of the requested memory range is already mapped"},
    {cudaErrorHostMemoryNotRegistered, "pointer does not correspond to a registered memory region"},
    {cudaErrorLaunchFailure, "unspecified launch failure"},
    {cudaErrorNotPermitted, "operation not permitted"},
    {cudaErrorNotSupported, "operation not supported"},
    {cudaErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing"},
    {cudaErrorStreamCaptureInvalidated, "operation failed due to a previous error during capture"},
    {cudaErrorUnknown, "unknown error"},
};

/// "cudaErrorStreamCaptureMerge" -> "stream capture merge".
std::string spelled_out(std::string_view name) {
  constexpr std::string_view kPrefix = "cudaError";
  if (name.substr(0, kPrefix.size()) == kPrefix) name.remove_prefix(kPrefix.size());
  std::string text;
  for (const char letter : name) {
    const bool upper = std::isupper(static_cast<unsigned char>(letter)) != 0;
    if (upper && !text.empty()) text += ' ';
    text += static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  }
  return text;
}

/// The texts of all errors. Built once and never destroyed, since programs keep pointers to them.
const std::map<int, std::string>& texts() {
  static const auto* const built = [] {
    auto* const all = new std::map<int, std::string>;
    for (const Name& entry : kTexts) all->emplace(entry.value, entry.name);
    for (const Name& entry : kNames) all->emplace(entry.value, spelled_out(entry.name));
    return all;
  }();
  return *built;
}

}  // namespace

SIMGPU_EXPORT cudaError_t cudaGetLastError() { return last_error(true); }
SIMGPU_EXPORT cudaError_t cudaPeekAtLastError() { return last_error(false); }

SIMGPU_EXPORT const char* cudaGetErrorName(cudaError_t error) {
  const auto* const found =
      std::find_if(std::begin(kNames), std::end(kNames),
                   [error](const auto& entry) { return entry.value == error; });
  return found == std::end(kNames) ? "unrecognized error code" : found->name;
}

SIMGPU_EXPORT const char* cudaGetErrorString(cudaError_t error) {
  const auto found = texts().find(error);
  return found == texts().end() ? "unrecognized error code" : found->second.c_str();
}

}  // namespace simgpu::cudart
