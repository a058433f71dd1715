// The answer of driver functions that simgpu does not have.
#pragma once

#include <atomic>

#include "tools/simgpu/driver/entry/api.h"

namespace simgpu {

/// Answers for a driver function that simgpu does not have: says so on stderr the first time.
///
/// `name` is the exported symbol, `said` the function's own flag. Any thread; waits on nothing.
/// @return CUDA_ERROR_NOT_SUPPORTED, always.
CUresult unsupported(const char* name, std::atomic<bool>& said);

}  // namespace simgpu

/// Defines the driver function `name` with parameter types `parameters` (in parentheses) as one
/// that is not supported, unless the library has another definition of it.
#define SIMGPU_UNSUPPORTED(name, parameters)    \
  SIMGPU_WEAK_EXPORT CUresult name parameters { \
    static std::atomic<bool> said{false};       \
    return simgpu::unsupported(#name, said);    \
  }
