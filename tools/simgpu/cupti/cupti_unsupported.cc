// Every name that NVIDIA's library exports: refused, unless another file here defines it. They take
// whatever they are given: nothing is read, so no prototype is needed.
#include <atomic>

#include "tools/simgpu/export.h"
#include "tools/simgpu/unsupported.h"

namespace simgpu::cupti {
namespace {

// CUPTI_ERROR_NOT_SUPPORTED
int unsupported(const char* name, std::atomic<bool>& said) noexcept {
  say_unsupported(name, "CUPTI", said);
  return 27;
}

}  // namespace
#include "tools/simgpu/cupti/generated/cupti_names.inc"
}  // namespace simgpu::cupti
