// The end of every call that may run out of host memory.
#pragma once

#include <new>

#include "tools/simgpu/cudnn/status.h"

namespace simgpu::cudnn {

/// What `call` answers, or that host memory ran out.
template <typename Call>
int guarded(const Call& call) noexcept {
  try {
    return call();
  } catch (const std::bad_alloc&) {
    return kAllocFailed;
  }
}

}  // namespace simgpu::cudnn
