#include "tools/simgpu/cublas/unsupported.h"

#include <cstdio>

#include "tools/simgpu/cublas/status.h"

namespace simgpu::cublas {

int unsupported(const char* name, std::atomic<bool>& said) noexcept {
  if (!said.exchange(true, std::memory_order_relaxed)) {
    std::fprintf(stderr, "simgpu: %s is not supported by simgpu's cuBLAS\n", name);
  }
  return kNotSupported;
}

}  // namespace simgpu::cublas
