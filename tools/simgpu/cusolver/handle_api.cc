// simgpu's libcusolver.so: handles, parameters and version.
#include <cuda.h>

#include <array>

#include "tools/simgpu/cublas/launch.h"
#include "tools/simgpu/cusolver/handle.h"
#include "tools/simgpu/cusolver/status.h"
#include "tools/simgpu/export.h"
#include "tools/simgpu/host_memory.h"

namespace simgpu::cusolver {
namespace {

#ifndef SIMGPU_CUSOLVER_VERSION
#define SIMGPU_CUSOLVER_VERSION 12401
#endif
/// 1000 * major + 100 * minor + patch.
constexpr int kVersion = SIMGPU_CUSOLVER_VERSION;

int create(Handle** handle) {
  if (handle == nullptr) return kInvalidValue;
  if (cublas::check_context() != cublas::kSuccess) return kNotInitialized;
  return give_copy(handle) ? kSuccess : kAllocFailed;
}

int destroy(Handle* handle) {
  if (handle == nullptr) return kNotInitialized;
  delete handle;
  return kSuccess;
}

int set_stream(Handle* handle, CUstream stream) {
  if (handle == nullptr) return kNotInitialized;
  handle->stream = stream;
  return kSuccess;
}

int get_stream(const Handle* handle, CUstream* stream) {
  if (handle == nullptr) return kNotInitialized;
  if (stream == nullptr) return kInvalidValue;
  *stream = handle->stream;
  return kSuccess;
}

int create_parameters(Parameters** parameters) {
  if (parameters == nullptr) return kInvalidValue;
  return give_copy(parameters) ? kSuccess : kAllocFailed;
}

int destroy_parameters(Parameters* parameters) {
  delete parameters;  // null is allowed
  return kSuccess;
}

template <typename Value>
int set(Parameters* parameters, Value Parameters::*field, Value value) {
  if (parameters == nullptr) return kInvalidValue;
  parameters->*field = value;
  return kSuccess;
}

/// Answers with `said`: what an iteration has come to.
template <typename Value>
int tell(const Handle* handle, const Parameters* parameters, Value* value, Value said) {
  if (handle == nullptr) return kNotInitialized;
  if (parameters == nullptr || value == nullptr) return kInvalidValue;
  *value = said;
  return kSuccess;
}

}  // namespace

SIMGPU_EXPORT int cusolverDnCreate(Handle** handle) { return create(handle); }
SIMGPU_EXPORT int cusolverDnDestroy(Handle* handle) { return destroy(handle); }
SIMGPU_EXPORT int cusolverDnSetStream(Handle* handle, CUstream stream) {
  return set_stream(handle, stream);
}
SIMGPU_EXPORT int cusolverDnGetStream(const Handle* handle, CUstream* stream) {
  return get_stream(handle, stream);
}
SIMGPU_EXPORT int cusolverSpCreate(Handle** handle) { return create(handle); }
SIMGPU_EXPORT int cusolverSpDestroy(Handle* handle) { return destroy(handle); }
SIMGPU_EXPORT int cusolverSpSetStream(Handle* handle, CUstream stream) {
  return set_stream(handle, stream);
}
SIMGPU_EXPORT int cusolverSpGetStream(const Handle* handle, CUstream* stream) {
  return get_stream(handle, stream);
}

SIMGPU_EXPORT int cusolverDnSetDeterministicMode(Handle* handle, int mode) {
  if (handle == nullptr) return kNotInitialized;
  handle->deterministic_mode = mode;
  return kSuccess;
}
SIMGPU_EXPORT int cusolverDnGetDeterministicMode(const Handle* handle, int* mode) {
  if (handle == nullptr) return kNotInitialized;
  if (mode == nullptr) return kInvalidValue;
  *mode = handle->deterministic_mode;
  return kSuccess;
}

SIMGPU_EXPORT int cusolverDnCreateParams(Parameters** parameters) {
  return create_parameters(parameters);
}
SIMGPU_EXPORT int cusolverDnDestroyParams(Parameters* parameters) {
  return destroy_parameters(parameters);
}
/// Ignores which algorithm a function shall use: each is one launch.
SIMGPU_EXPORT int cusolverDnSetAdvOptions(Parameters* parameters, int /*function*/,
                                          int /*algorithm*/) {
  return parameters == nullptr ? kInvalidValue : kSuccess;
}

SIMGPU_EXPORT int cusolverDnCreateGesvdjInfo(Parameters** info) { return create_parameters(info); }
SIMGPU_EXPORT int cusolverDnDestroyGesvdjInfo(Parameters* info) { return destroy_parameters(info); }
SIMGPU_EXPORT int cusolverDnXgesvdjSetTolerance(Parameters* info, double tolerance) {
  return set(info, &Parameters::tolerance, tolerance);
}
SIMGPU_EXPORT int cusolverDnXgesvdjSetMaxSweeps(Parameters* info, int sweeps) {
  return set(info, &Parameters::most_sweeps, sweeps);
}
SIMGPU_EXPORT int cusolverDnXgesvdjSetSortEig(Parameters* info, int sorts) {
  return set(info, &Parameters::sorts, sorts);
}
SIMGPU_EXPORT int cusolverDnXgesvdjGetResidual(const Handle* handle, const Parameters* info,
                                               double* residual) {
  return tell(handle, info, residual, 0.0);
}
SIMGPU_EXPORT int cusolverDnXgesvdjGetSweeps(const Handle* handle, const Parameters* info,
                                             int* sweeps) {
  return tell(handle, info, sweeps, 1);
}

SIMGPU_EXPORT int cusolverDnCreateSyevjInfo(Parameters** info) { return create_parameters(info); }
SIMGPU_EXPORT int cusolverDnDestroySyevjInfo(Parameters* info) { return destroy_parameters(info); }
SIMGPU_EXPORT int cusolverDnXsyevjSetTolerance(Parameters* info, double tolerance) {
  return set(info, &Parameters::tolerance, tolerance);
}
SIMGPU_EXPORT int cusolverDnXsyevjSetMaxSweeps(Parameters* info, int sweeps) {
  return set(info, &Parameters::most_sweeps, sweeps);
}
SIMGPU_EXPORT int cusolverDnXsyevjSetSortEig(Parameters* info, int sorts) {
  return set(info, &Parameters::sorts, sorts);
}
SIMGPU_EXPORT int cusolverDnXsyevjGetResidual(const Handle* handle, const Parameters* info,
                                              double* residual) {
  return tell(handle, info, residual, 0.0);
}
SIMGPU_EXPORT int cusolverDnXsyevjGetSweeps(const Handle* handle, const Parameters* info,
                                            int* sweeps) {
  return tell(handle, info, sweeps, 1);
}

SIMGPU_EXPORT int cusolverGetVersion(int* version) {
  if (version == nullptr) return kInvalidValue;
  *version = kVersion;
  return kSuccess;
}

/// `property`: libraryPropertyType, 0 to 2.
SIMGPU_EXPORT int cusolverGetProperty(int property, int* value) {
  constexpr std::array kParts{kVersion / 1000, kVersion / 100 % 10, kVersion % 100};
  if (value == nullptr || property < 0 || property >= static_cast<int>(kParts.size())) {
    return kInvalidValue;
  }
  *value = kParts[static_cast<std::size_t>(property)];
  return kSuccess;
}

}  // namespace simgpu::cusolver
