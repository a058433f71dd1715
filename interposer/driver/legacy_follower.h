// Events behind the work of the legacy stream that are no work of it.
#pragma once

#include <atomic>
#include <mutex>

#include "interposer/driver/cuda_api.h"

namespace superpipe {

/// A blocking stream of ours, on which events come behind what the legacy stream has.
///
/// An event that is recorded on the legacy stream itself is a barrier for all streams that join it.
/// If one of two such streams waits for the other, though the program has put nothing of the legacy
/// stream in between, that event closes a circle. Work of a blocking stream comes behind all that
/// the legacy stream has, and nothing but later work of the legacy stream waits for it.
///
/// Thread-safe. The caller has the context current. The first record() makes the stream and pins a
/// word of host memory, which may wait for the device. Later ones wait only where the stream has no
/// room for another operation.
class LegacyFollower {
 public:
  LegacyFollower() = default;
  LegacyFollower(const LegacyFollower&) = delete;
  LegacyFollower& operator=(const LegacyFollower&) = delete;

  /// Records `event` behind all that was submitted to the legacy stream before. The stream writes a
  /// word first, which is sure to be work; whether an event alone has to come behind the legacy
  /// stream, the driver's manual does not say.
  /// @return what the driver says; CUDA_ERROR_NOT_SUPPORTED: there is no such stream.
  CUresult record(CUevent event) noexcept;

  /// Gives the stream and the word back, which waits for what the stream has. No event is recorded
  /// from then on. To be called where there still is a context.
  void destroy() noexcept;

 private:
  CUstream made() noexcept;
  CUstream make() noexcept;

  std::mutex making_;       ///< not held while anything is submitted, which may wait for room
  bool has_tried_ = false;  ///< guarded by making_
  std::atomic<CUstream> stream_{nullptr};
  void* memory_ = nullptr;  ///< a pinned word, which is only written
  CUdeviceptr word_ = 0;    ///< the same, for the device
};

}  // namespace superpipe
