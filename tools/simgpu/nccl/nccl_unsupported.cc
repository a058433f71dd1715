// Every name that NVIDIA's library exports: refused, unless another file here defines it. They take
// whatever they are given: nothing is read, so no prototype is needed.
#include <atomic>

#include "tools/simgpu/export.h"
#include "tools/simgpu/nccl/result.h"
#include "tools/simgpu/unsupported.h"

namespace simgpu::nccl {
namespace {

int unsupported(const char* name, std::atomic<bool>& said) noexcept {
  say_unsupported(name, "NCCL", said);
  return kInvalidUsage;
}

}  // namespace
#include "tools/simgpu/nccl/generated/nccl_names.inc"
}  // namespace simgpu::nccl
