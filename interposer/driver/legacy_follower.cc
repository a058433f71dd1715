#include "interposer/driver/legacy_follower.h"

#include <cstdint>

#include "interposer/driver/in_context.h"
#include "interposer/driver/table.h"

namespace superpipe {

// What other threads submit in between does no harm: each event comes behind its own word.
CUresult LegacyFollower::record(CUevent event) noexcept {
  CUstream stream = stream_.load();
  if (stream == nullptr) stream = made();
  if (stream == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  const CUresult set = driver().cuMemsetD32Async(word_, 0, 1, stream);
  return set == CUDA_SUCCESS ? driver().cuEventRecord(event, stream) : set;
}

CUstream LegacyFollower::made() noexcept {
  const std::lock_guard lock(making_);
  if (!has_tried_) {
    has_tried_ = true;
    stream_.store(make());
  }
  return stream_.load();
}

CUstream LegacyFollower::make() noexcept {
  const RelaxedCaptureMode mode;
  CUstream stream = nullptr;
  if (driver().cuMemAllocHost_v2(&memory_, sizeof(std::uint32_t)) != CUDA_SUCCESS) {
    memory_ = nullptr;
    return nullptr;
  }
  if (driver().cuMemHostGetDevicePointer_v2(&word_, memory_, 0) != CUDA_SUCCESS ||
      driver().cuStreamCreate(&stream, CU_STREAM_DEFAULT) != CUDA_SUCCESS) {
    return nullptr;
  }
  return stream;
}

void LegacyFollower::destroy() noexcept {
  const std::lock_guard lock(making_);
  has_tried_ = true;
  const CUstream stream = stream_.exchange(nullptr);
  if (stream != nullptr) (void)driver().cuStreamDestroy_v2(stream);
  if (memory_ != nullptr) (void)driver().cuMemFreeHost(memory_);
  memory_ = nullptr;
}

}  // namespace superpipe
