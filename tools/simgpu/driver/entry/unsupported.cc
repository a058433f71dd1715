#include "tools/simgpu/driver/entry/unsupported.h"

#include "tools/simgpu/driver/process/log.h"

namespace simgpu {

CUresult unsupported(const char* name, std::atomic<bool>& said) {
  if (!said.exchange(true, std::memory_order_relaxed)) {
    log_line(LogLevel::kWarning, "%s is not supported by simgpu", name);
  }
  return CUDA_ERROR_NOT_SUPPORTED;
}

}  // namespace simgpu
