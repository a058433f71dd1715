// Every name that NVIDIA's library exports: refused, unless another file here defines it. They take
// whatever they are given: nothing is read, so no prototype is needed.
#include <atomic>

#include "tools/simgpu/cusparse/status.h"
#include "tools/simgpu/export.h"
#include "tools/simgpu/unsupported.h"

namespace simgpu::cusparse {
namespace {

int unsupported(const char* name, std::atomic<bool>& said) noexcept {
  say_unsupported(name, "cuSPARSE", said);
  return kNotSupported;
}

}  // namespace
#include "tools/simgpu/cusparse/generated/cusparse_names.inc"
}  // namespace simgpu::cusparse
