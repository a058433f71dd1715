// What the thread that pins host memory ahead of need does in a round.
#pragma once

#include <chrono>

#include "residency/manager_mutex.h"
#include "residency/residency_core.h"
#include "residency/worker.h"

namespace superpipe {

/// Keeps a slab in stock of each size that is asked for again and again, so that an eviction does
/// not wait while one is pinned. A part of the manager, under its mutex, which it opens to pin.
class StockRounds : public WorkerRounds {
 public:
  explicit StockRounds(ResidencyCore& core) : core_(core) {}

  bool run() noexcept override REQUIRES(manager_lock) {
    const auto size = core_.host.lacking();
    if (!size) return false;
    bool stocked = false;
    {
      const Unlocked unlocked(core_.mutex);
      stocked = core_.host.stock(*size);
    }
    // Who lacked another one meanwhile has woken nobody.
    return stocked || core_.host.lacking().has_value();
  }
  [[nodiscard]] bool is_pending() const override { return false; }
  [[nodiscard]] std::chrono::nanoseconds longest_rest() const override {
    return std::chrono::hours{1};
  }

 private:
  ResidencyCore& core_;
};

}  // namespace superpipe
