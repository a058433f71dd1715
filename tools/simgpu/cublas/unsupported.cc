#include "tools/simgpu/cublas/unsupported.h"

#include "tools/simgpu/cublas/status.h"
#include "tools/simgpu/unsupported.h"

namespace simgpu::cublas {

int unsupported(const char* name, std::atomic<bool>& said) noexcept {
  say_unsupported(name, "cuBLAS", said);
  return kNotSupported;
}

}  // namespace simgpu::cublas
