// The answer of cuBLAS routines that simgpu does not have.
#pragma once

#include <atomic>

#include "tools/simgpu/export.h"

namespace simgpu::cublas {

/// Answers for a routine that simgpu does not have: one line on standard error, the first time that
/// it sees `said`. Any thread; waits on nothing.
/// @return kNotSupported, always.
int unsupported(const char* name, std::atomic<bool>& said) noexcept;

}  // namespace simgpu::cublas
