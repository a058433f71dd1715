// Has the device compute digests of pages, and keeps the room for their results.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "policy/units.h"
#include "residency/content_digest.h"
#include "residency/device_memory.h"
#include "residency/event_pool.h"
#include "residency/result.h"

namespace superpipe {

/// Enqueues digests on a stream of its own, so that they wait for no copy and end in the order in
/// which they began.
///
/// Not thread-safe: for the worker alone and, once that has ended, for who stops it. Calls the
/// device without a lock and waits for no work of the program.
class Digester {
 public:
  /// Digests that may be under way at once.
  static constexpr std::size_t kSlots = 256;
  /// Where the result of a digest will be.
  using Slot = std::uint16_t;

  Digester(DeviceMemory& device, EventPool& events) : device_(device), events_(events) {}
  ~Digester();
  Digester(const Digester&) = delete;
  Digester& operator=(const Digester&) = delete;

  /// Gets the device ready, at the first call. @return whether digests can be had: if not at the
  /// first call, never.
  bool prepare() noexcept;

  /// Whether digests were asked for and cannot be had.
  [[nodiscard]] bool is_unavailable() const { return state_ == State::kUnavailable; }

  /// What became of a digest.
  struct Enqueued {
    Status status = Status::kOk;
    /// Completes when the result is there, or when what was enqueued of a failed one has ended.
    /// Null: nothing was enqueued, or nothing tells when it ends.
    EventRef done;
    /// The device may read the page, and nothing tells until when: it may never be used for
    /// anything else.
    bool untracked = false;
    /// REQUIRES: status is kOk. To be given back with give_back().
    Slot slot = 0;
  };
  /// Enqueues the digest of `size` bytes at `window`. REQUIRES: prepare() said yes, and all that
  /// writes to the page has ended. @return kNotYet if as many are under way as can be. After an
  /// error of the device there are no digests any more.
  Enqueued enqueue(Address window, Bytes size);

  /// The result in `slot`. REQUIRES: the event of that digest has completed.
  [[nodiscard]] ContentDigest result(Slot slot) const;
  /// REQUIRES: the event of that digest has completed.
  void give_back(Slot slot) noexcept { free_.push_back(slot); }

  /// Waits for all digests, at most `limit`, and gives up stream and memory. @return kTimedOut, or
  /// the device's error: then nothing is given up.
  Status stop(std::chrono::milliseconds limit);

 private:
  bool get_ready();

  enum class State { kUnasked, kReady, kUnavailable };
  struct alignas(4096) Results {
    ContentDigest values[kSlots];
  };

  DeviceMemory& device_;
  EventPool& events_;
  State state_ = State::kUnasked;
  StreamHandle stream_{};
  std::unique_ptr<Results> results_;  ///< pinned while there is a stream
  bool pinned_ = false;
  std::vector<Slot> free_;
};

}  // namespace superpipe
