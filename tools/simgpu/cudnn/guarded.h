// The end of every call that may run out of host memory.
#pragma once

#include <exception>

#include "tools/simgpu/cudnn/status.h"

namespace simgpu::cudnn {

/// What `call` answers, or that host memory ran out, as it does for a count that has no sense.
template <typename Call>
int guarded(const Call& call) noexcept {
  try {
    return call();
  } catch (const std::exception&) {
    return kAllocFailed;
  }
}

}  // namespace simgpu::cudnn
