#include "interposer/driver/legacy_follower.h"

#include <cstdint>

#include "interposer/driver/in_context.h"
#include "interposer/driver/table.h"

namespace superpipe {

CUresult LegacyFollower::record(CUevent event) noexcept {
  const std::lock_guard lock(mutex_);
  if (!has_tried_) {
    has_tried_ = true;
    make();
  }
  if (stream_ == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  const CUresult set = driver().cuMemsetD32Async(word_, 0, 1, stream_);
  return set == CUDA_SUCCESS ? driver().cuEventRecord(event, stream_) : set;
}

void LegacyFollower::make() noexcept {
  const RelaxedCaptureMode mode;
  if (driver().cuMemHostAlloc(&memory_, sizeof(std::uint32_t), CU_MEMHOSTALLOC_DEVICEMAP) !=
      CUDA_SUCCESS) {
    memory_ = nullptr;
    return;
  }
  if (driver().cuMemHostGetDevicePointer_v2(&word_, memory_, 0) != CUDA_SUCCESS ||
      driver().cuStreamCreate(&stream_, CU_STREAM_DEFAULT) != CUDA_SUCCESS) {
    stream_ = nullptr;
  }
}

void LegacyFollower::destroy() noexcept {
  const std::lock_guard lock(mutex_);
  if (stream_ != nullptr) (void)driver().cuStreamDestroy_v2(stream_);
  if (memory_ != nullptr) (void)driver().cuMemFreeHost(memory_);
  stream_ = nullptr;
  memory_ = nullptr;
  has_tried_ = true;
}

}  // namespace superpipe
