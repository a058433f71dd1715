// What a stand-in says of functions that simgpu does not have.
#pragma once

#include <atomic>
#include <cstdio>

namespace simgpu {

/// One line on standard error, the first time that it sees `said`. `library`: "cuBLAS" and the
/// like. Any thread; waits on nothing.
inline void say_unsupported(const char* name, const char* library,
                            std::atomic<bool>& said) noexcept {
  if (said.exchange(true, std::memory_order_relaxed)) return;
  std::fprintf(stderr, "simgpu: %s is not supported by simgpu's %s\n", name, library);
}

}  // namespace simgpu
