// What the thread that looks after host memory does in a round: it pins ahead of need, computes
// digests, and unpins behind.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "residency/manager_mutex.h"
#include "residency/residency_core.h"
#include "residency/room/eviction_queue.h"
#include "residency/transfer/evictor.h"
#include "residency/transfer/host_digests.h"
#include "residency/transfer/use_completion.h"
#include "residency/tuning.h"
#include "residency/uses/use_tracker.h"
#include "residency/worker.h"

namespace superpipe {

/// Keeps a slab in stock of each size that is asked for again and again, so that an eviction does
/// not wait while one is pinned; computes the digests of what the program has written to slabs
/// (HostDigests) while there is nothing to pin; and unpins those that nothing has asked for in a
/// long time (IdlePatience), one at a time. A driver that unpins waits for all work of its context,
/// and may hold a lock meanwhile that every other call needs: a kernel that waits for the host
/// would never end. So a slab stays pinned as long as the device is not known to be idle. A part of
/// the manager, under its mutex, which it opens for each call of the device.
class StockRounds : public WorkerRounds {
 public:
  /// The time between two looks at whether the device is idle, in which nothing may be submitted.
  static constexpr auto kLookInterval = tuning::kUnpinLookInterval;

  /// `uses` is asked for the launches that were announced.
  StockRounds(ResidencyCore& core, const EvictionQueue& evictions, const Evictor& evictor,
              UseCompletion& completion, const UseTracker& uses, HostDigests& digests)
      : core_(core),
        evictions_(evictions),
        evictor_(evictor),
        completion_(completion),
        uses_(uses),
        digests_(digests) {}

  /// @return whether a slab was pinned, or may have to be, or a digest was computed. A round that
  /// has unpinned one is followed by a rest.
  bool run() noexcept override REQUIRES(manager_lock);
  [[nodiscard]] bool is_pending() const override { return false; }
  [[nodiscard]] bool is_awaited() const override { return false; }
  /// Until a slab has been idle for too long and may be unpinned, or what was written has been
  /// quiet for long enough; if there is neither, until the thread is woken.
  [[nodiscard]] std::chrono::nanoseconds longest_rest() const override REQUIRES(manager_lock);

 private:
  /// What was submitted to the device, as far as it was announced.
  struct Submitted {
    std::uint64_t launches;
    std::uint64_t uses;
    bool operator==(const Submitted&) const = default;
  };

  void unpin() noexcept REQUIRES(manager_lock);
  bool is_device_idle() noexcept REQUIRES(manager_lock);
  [[nodiscard]] bool has_work() const REQUIRES(manager_lock) {
    return !evictions_.empty() || !core_.fetches.empty() || evictor_.is_pending();
  }
  [[nodiscard]] Submitted submitted() const REQUIRES(manager_lock) {
    return {uses_.launches(), core_.seq};
  }

  ResidencyCore& core_;
  const EvictionQueue& evictions_;
  const Evictor& evictor_;
  UseCompletion& completion_;
  const UseTracker& uses_;
  HostDigests& digests_;
  std::optional<Submitted> seen_ GUARDED_BY(manager_lock);  ///< at the last look
  ResidencyCore::Clock::time_point next_look_ GUARDED_BY(manager_lock);
};

}  // namespace superpipe
