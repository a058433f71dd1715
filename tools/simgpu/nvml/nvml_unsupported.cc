// Every name in NVML's header: refused, unless another file here defines it. They take whatever
// they are given: nothing is read, so no prototype is needed.
#include <atomic>

#include "tools/simgpu/export.h"
#include "tools/simgpu/unsupported.h"

namespace simgpu::nvml {
namespace {

// NVML_ERROR_NOT_SUPPORTED
int unsupported(const char* name, std::atomic<bool>& said) noexcept {
  say_unsupported(name, "NVML", said);
  return 3;
}

}  // namespace
#include "tools/simgpu/nvml/generated/nvml_names.inc"
}  // namespace simgpu::nvml
