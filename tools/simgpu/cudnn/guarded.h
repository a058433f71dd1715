// The end of every call that may run out of host memory.
#pragma once

#include "tools/simgpu/cudnn/status.h"
#include "tools/simgpu/host_memory.h"

namespace simgpu::cudnn {

/// What `call` answers, or that host memory ran out, as it does for a count that has no sense.
template <typename Call>
int guarded(const Call& call) noexcept {
  return answer_or<int>(kAllocFailed, call);
}

}  // namespace simgpu::cudnn
