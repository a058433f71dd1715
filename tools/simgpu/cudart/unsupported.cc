#include "tools/simgpu/cudart/unsupported.h"

#include "tools/simgpu/cudart/runtime.h"
#include "tools/simgpu/unsupported.h"

namespace simgpu::cudart {

int unsupported(const char* name, std::atomic<bool>& said) noexcept {
  say_unsupported(name, "runtime library", said);
  return record(cudaErrorNotSupported);
}

}  // namespace simgpu::cudart
