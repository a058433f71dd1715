// Every name that NVIDIA's library exports: refused, unless another file here defines it. They take
// whatever they are given: nothing is read, so no prototype is needed.
#include <atomic>

#include "tools/simgpu/cusolver/status.h"
#include "tools/simgpu/export.h"
#include "tools/simgpu/unsupported.h"

namespace simgpu::cusolver {
namespace {

int unsupported(const char* name, std::atomic<bool>& said) noexcept {
  say_unsupported(name, "cuSOLVER", said);
  return kNotSupported;
}

}  // namespace
#include "tools/simgpu/cusolver/generated/cusolver_names.inc"
}  // namespace simgpu::cusolver
