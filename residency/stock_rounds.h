// What the thread that pins host memory ahead of need, and unpins it behind, does in a round.
#pragma once

#include <algorithm>
#include <chrono>

#include "residency/eviction_queue.h"
#include "residency/manager_mutex.h"
#include "residency/residency_core.h"
#include "residency/worker.h"

namespace superpipe {

/// Keeps a slab in stock of each size that is asked for again and again, so that an eviction does
/// not wait while one is pinned; and unpins those that nobody has asked for in a long time
/// (IdlePatience), one at a time, while nothing waits to be moved: the calls of the device for that
/// could have to wait for the one that unpins. A part of the manager, under its mutex, which it
/// opens to pin and to unpin.
class StockRounds : public WorkerRounds {
 public:
  /// The shortest time between two looks at slabs that could not be unpinned at once.
  static constexpr std::chrono::seconds kShortestRest{1};

  StockRounds(ResidencyCore& core, const EvictionQueue& evictions)
      : core_(core), evictions_(evictions) {}

  bool run() noexcept override REQUIRES(manager_lock) {
    const auto size = core_.host.lacking();
    if (!size) return unpin();
    bool stocked = false;
    {
      const Unlocked unlocked(core_.mutex);
      stocked = core_.host.stock(*size);
    }
    // Who lacked another one meanwhile has woken nobody.
    return stocked || core_.host.lacking().has_value();
  }
  [[nodiscard]] bool is_pending() const override { return false; }
  /// Until a slab has been idle for too long; if none is idle, until somebody wakes the thread.
  [[nodiscard]] std::chrono::nanoseconds longest_rest() const override {
    constexpr std::chrono::hours kUntilWoken{1};
    const auto expiry = core_.host.next_expiry();
    if (!expiry) return kUntilWoken;
    return std::max<std::chrono::nanoseconds>(*expiry - core_.now(), kShortestRest);
  }

 private:
  // @return whether a slab was unpinned.
  bool unpin() noexcept REQUIRES(manager_lock) {
    const auto expiry = core_.host.next_expiry();
    if (!expiry || *expiry > core_.now()) return false;
    if (!evictions_.empty() || !core_.fetches.empty()) return false;
    const Unlocked unlocked(core_.mutex);
    return core_.host.unpin_expired();
  }

  ResidencyCore& core_;
  const EvictionQueue& evictions_;
};

}  // namespace superpipe
