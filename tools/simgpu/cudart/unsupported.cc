#include "tools/simgpu/cudart/unsupported.h"

#include <cstdio>

#include "tools/simgpu/cudart/runtime.h"

namespace simgpu::cudart {

int unsupported(const char* name, std::atomic<bool>& said) noexcept {
  if (!said.exchange(true, std::memory_order_relaxed)) {
    std::fprintf(stderr, "simgpu: %s is not supported by simgpu's runtime library\n", name);
  }
  return record(cudaErrorNotSupported);
}

}  // namespace simgpu::cudart
