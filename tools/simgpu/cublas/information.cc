#include "tools/simgpu/cublas/information.h"

#include <array>

#include "tools/simgpu/cublas/status.h"

namespace simgpu::cublas {
namespace {

struct StatusWords {
  int status;
  const char* name;
  const char* text;
};

// Source: cuBLAS, "cublasStatus_t".
constexpr std::array<StatusWords, 10> kStatusWords{{
    {kSuccess, "CUBLAS_STATUS_SUCCESS", "success"},
    {kNotInitialized, "CUBLAS_STATUS_NOT_INITIALIZED", "the library was not initialized"},
    {kAllocFailed, "CUBLAS_STATUS_ALLOC_FAILED", "memory ran out"},
    {kInvalidValue, "CUBLAS_STATUS_INVALID_VALUE", "an argument has no meaning"},
    {8, "CUBLAS_STATUS_ARCH_MISMATCH", "the device lacks what the routine needs"},
    {11, "CUBLAS_STATUS_MAPPING_ERROR", "device memory could not be reached"},
    {kExecutionFailed, "CUBLAS_STATUS_EXECUTION_FAILED", "the kernel did not run"},
    {14, "CUBLAS_STATUS_INTERNAL_ERROR", "the library failed"},
    {kNotSupported, "CUBLAS_STATUS_NOT_SUPPORTED", "simgpu's cuBLAS does not have this"},
    {16, "CUBLAS_STATUS_LICENSE_ERROR", "no license"},
}};

const StatusWords& words_of(int status) noexcept {
  static constexpr StatusWords kUnknown{-1, "CUBLAS_STATUS_UNKNOWN", "no status of cuBLAS"};
  for (const StatusWords& words : kStatusWords) {
    if (words.status == status) return words;
  }
  return kUnknown;
}

}  // namespace

int version_part(int property, int* value) noexcept {
  constexpr std::array kParts{kVersion / 10000, kVersion / 100 % 100, kVersion % 100};
  if (value == nullptr || property < 0 || property >= static_cast<int>(kParts.size())) {
    return kInvalidValue;
  }
  *value = kParts[static_cast<std::size_t>(property)];
  return kSuccess;
}

const char* status_name(int status) noexcept { return words_of(status).name; }
const char* status_text(int status) noexcept { return words_of(status).text; }

}  // namespace simgpu::cublas
