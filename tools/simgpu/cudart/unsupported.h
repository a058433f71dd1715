// The answer of runtime functions that simgpu does not have.
#pragma once

#include <atomic>

#include "tools/simgpu/export.h"

namespace simgpu::cudart {

/// Answers for a runtime function that simgpu does not have: one line on standard error, the first
/// time that it sees `said`. Any thread; waits on nothing.
/// @return cudaErrorNotSupported, always, which is also the thread's last error.
int unsupported(const char* name, std::atomic<bool>& said) noexcept;

}  // namespace simgpu::cudart
