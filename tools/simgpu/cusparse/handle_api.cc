// simgpu's libcusparse.so: handles, what is said of matrices, and version.
#include <array>

#include "tools/simgpu/cublas/launch.h"
#include "tools/simgpu/cusparse/descriptor.h"
#include "tools/simgpu/cusparse/status.h"
#include "tools/simgpu/export.h"
#include "tools/simgpu/host_memory.h"

namespace simgpu::cusparse {
namespace {

/// 1000 * major + 100 * minor + patch: programs refuse one older than what they were built with.
constexpr int kVersion = 12904;

struct StatusWords {
  int status;
  const char* name;
  const char* text;
};
constexpr std::array<StatusWords, 6> kStatusWords{{
    {kSuccess, "CUSPARSE_STATUS_SUCCESS", "success"},
    {kNotInitialized, "CUSPARSE_STATUS_NOT_INITIALIZED", "initialization error"},
    {kAllocFailed, "CUSPARSE_STATUS_ALLOC_FAILED", "out of memory"},
    {kInvalidValue, "CUSPARSE_STATUS_INVALID_VALUE", "an argument has no meaning"},
    {kExecutionFailed, "CUSPARSE_STATUS_EXECUTION_FAILED", "the kernel did not run"},
    {kNotSupported, "CUSPARSE_STATUS_NOT_SUPPORTED", "simgpu's cuSPARSE does not have this"},
}};

const StatusWords& words_of(int status) noexcept {
  static constexpr StatusWords kUnknown{-1, "unrecognized error code", "unrecognized error code"};
  for (const StatusWords& words : kStatusWords) {
    if (words.status == status) return words;
  }
  return kUnknown;
}

int set(MatrixKind* kind, int MatrixKind::*field, int value) {
  if (kind == nullptr) return kInvalidValue;
  kind->*field = value;
  return kSuccess;
}

int get(const MatrixKind* kind, int MatrixKind::*field) {
  return kind == nullptr ? 0 : kind->*field;
}

}  // namespace

SIMGPU_EXPORT int cusparseCreate(Handle** handle) {
  if (handle == nullptr) return kInvalidValue;
  if (cublas::check_context() != cublas::kSuccess) return kNotInitialized;
  return give_copy(handle) ? kSuccess : kAllocFailed;
}

SIMGPU_EXPORT int cusparseDestroy(Handle* handle) {
  if (handle == nullptr) return kNotInitialized;
  delete handle;
  return kSuccess;
}

SIMGPU_EXPORT int cusparseSetStream(Handle* handle, CUstream stream) {
  if (handle == nullptr) return kNotInitialized;
  handle->stream = stream;
  return kSuccess;
}

SIMGPU_EXPORT int cusparseGetStream(const Handle* handle, CUstream* stream) {
  if (handle == nullptr) return kNotInitialized;
  if (stream == nullptr) return kInvalidValue;
  *stream = handle->stream;
  return kSuccess;
}

SIMGPU_EXPORT int cusparseSetPointerMode(Handle* handle, int mode) {
  if (handle == nullptr) return kNotInitialized;
  handle->pointer_mode = mode;
  return kSuccess;
}

SIMGPU_EXPORT int cusparseGetPointerMode(const Handle* handle, int* mode) {
  if (handle == nullptr) return kNotInitialized;
  if (mode == nullptr) return kInvalidValue;
  *mode = handle->pointer_mode;
  return kSuccess;
}

SIMGPU_EXPORT int cusparseGetVersion(const Handle* handle, int* version) {
  if (handle == nullptr) return kNotInitialized;
  if (version == nullptr) return kInvalidValue;
  *version = kVersion;
  return kSuccess;
}

/// `property`: libraryPropertyType, 0 to 2.
SIMGPU_EXPORT int cusparseGetProperty(int property, int* value) {
  constexpr std::array kParts{kVersion / 1000, kVersion / 100 % 10, kVersion % 100};
  if (value == nullptr || property < 0 || property >= static_cast<int>(kParts.size())) {
    return kInvalidValue;
  }
  *value = kParts[static_cast<std::size_t>(property)];
  return kSuccess;
}

SIMGPU_EXPORT const char* cusparseGetErrorName(int status) { return words_of(status).name; }
SIMGPU_EXPORT const char* cusparseGetErrorString(int status) { return words_of(status).text; }

SIMGPU_EXPORT int cusparseCreateMatDescr(MatrixKind** kind) {
  if (kind == nullptr) return kInvalidValue;
  return give_copy(kind) ? kSuccess : kAllocFailed;
}

SIMGPU_EXPORT int cusparseDestroyMatDescr(MatrixKind* kind) {
  delete kind;  // null is allowed
  return kSuccess;
}

SIMGPU_EXPORT int cusparseSetMatType(MatrixKind* kind, int type) {
  return set(kind, &MatrixKind::type, type);
}
SIMGPU_EXPORT int cusparseGetMatType(const MatrixKind* kind) {
  return get(kind, &MatrixKind::type);
}
SIMGPU_EXPORT int cusparseSetMatFillMode(MatrixKind* kind, int mode) {
  return set(kind, &MatrixKind::fill_mode, mode);
}
SIMGPU_EXPORT int cusparseGetMatFillMode(const MatrixKind* kind) {
  return get(kind, &MatrixKind::fill_mode);
}
SIMGPU_EXPORT int cusparseSetMatDiagType(MatrixKind* kind, int type) {
  return set(kind, &MatrixKind::diagonal_type, type);
}
SIMGPU_EXPORT int cusparseGetMatDiagType(const MatrixKind* kind) {
  return get(kind, &MatrixKind::diagonal_type);
}
SIMGPU_EXPORT int cusparseSetMatIndexBase(MatrixKind* kind, int base) {
  return set(kind, &MatrixKind::index_base, base);
}
SIMGPU_EXPORT int cusparseGetMatIndexBase(const MatrixKind* kind) {
  return get(kind, &MatrixKind::index_base);
}

}  // namespace simgpu::cusparse
