// The answer of driver functions that simgpu does not have.
#pragma once

#include <atomic>

#include "tools/simgpu/driver/entry/api.h"

namespace simgpu {

/// Answers for a driver function that simgpu does not have: one line on standard error, the first
/// time that it sees `said`. Any thread; waits on nothing.
/// @return CUDA_ERROR_NOT_SUPPORTED, always.
CUresult unsupported(const char* name, std::atomic<bool>& said);

}  // namespace simgpu
