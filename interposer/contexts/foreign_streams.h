// Order between streams of other contexts and the managed one.
#pragma once

#include <mutex>
#include <optional>

#include "interposer/driver/cuda_api.h"
#include "residency/device_memory.h"
#include "residency/result.h"

namespace superpipe {

/// Brings the order of other contexts' streams into the managed context: an event is recorded on
/// streams of its own context only, but any stream may wait for it. Thread-safe.
class ForeignStreams {
 public:
  /// `device` makes streams in the managed context, and must outlive this.
  explicit ForeignStreams(DeviceMemory& device) noexcept : device_(device) {}
  ForeignStreams(const ForeignStreams&) = delete;
  ForeignStreams& operator=(const ForeignStreams&) = delete;

  /// A stream of the managed context that is behind all that was submitted to `stream`, which
  /// belongs to another context and is not capturing. The driver destroys it with the context.
  /// Waits for nothing. @return what the driver failed with.
  Result<StreamHandle> behind(StreamHandle stream) noexcept;

 private:
  Result<StreamHandle> follower() noexcept;

  DeviceMemory& device_;
  std::mutex mutex_;
  std::optional<StreamHandle> follower_;  ///< once it was needed; guarded by mutex_
};

}  // namespace superpipe
