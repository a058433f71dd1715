// The answer of runtime functions that simgpu does not have.
#pragma once

#include <atomic>

#include "tools/simgpu/export.h"

namespace simgpu::cudart {

/// Answers a call of a runtime function that simgpu lacks: cudaErrorNotSupported, which is also the
/// thread's last error.
///
/// One line on standard error, the first time that `said` is seen. Any thread, waits on nothing.
int unsupported(const char* name, std::atomic<bool>& said) noexcept;

}  // namespace simgpu::cudart

/// Defines `name` weakly: a real definition elsewhere in the library takes its place.
#define SIMGPU_UNSUPPORTED(name)                     \
  SIMGPU_WEAK_EXPORT int name() {                    \
    static std::atomic<bool> said{false};            \
    return simgpu::cudart::unsupported(#name, said); \
  }
