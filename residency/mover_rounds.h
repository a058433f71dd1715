// What the worker does in a round: measures, keeps within the limit, fetches, evicts.
#pragma once

#include <chrono>
#include <cstdint>

#include "residency/content_mover.h"
#include "residency/eviction_queue.h"
#include "residency/manager_mutex.h"
#include "residency/page_supply.h"
#include "residency/residency_core.h"
#include "residency/worker.h"

namespace superpipe {

/// Carries out the fetches that are wanted and the evictions that were requested, as far as no
/// waiting is needed. Fetches go first, so that a page that came free is filled before the next one
/// is freed. A part of the manager, under its mutex, which it opens for each call of the device.
class MoverRounds : public WorkerRounds {
 public:
  MoverRounds(ResidencyCore& core, PageSupply& pages, ContentMover& mover, EvictionQueue& evictions)
      : core_(core), pages_(pages), mover_(mover), evictions_(evictions) {}

  bool run() noexcept override REQUIRES(manager_lock);
  [[nodiscard]] bool is_pending() const override REQUIRES(manager_lock);
  [[nodiscard]] std::chrono::nanoseconds longest_rest() const override REQUIRES(manager_lock) {
    return core_.passthrough.until_due(core_.now());
  }

 private:
  bool poll_meters() noexcept REQUIRES(manager_lock);
  template <typename Meter>
  bool poll(Meter& meter) REQUIRES(manager_lock);
  [[nodiscard]] bool must_relieve() const REQUIRES(manager_lock);
  bool relieve() noexcept REQUIRES(manager_lock);
  bool fetch_next() REQUIRES(manager_lock);
  bool evict_next() REQUIRES(manager_lock);

  ResidencyCore& core_;
  PageSupply& pages_;
  ContentMover& mover_;
  EvictionQueue& evictions_;
  /// How many samples there had been when relieve() last requested evictions because the limit had
  /// shrunk, and when it last found no buffer that could be evicted.
  std::uint64_t relieved_at_ GUARDED_BY(manager_lock) = ~std::uint64_t{0};
  std::uint64_t relieved_in_vain_ GUARDED_BY(manager_lock) = ~std::uint64_t{0};
};

}  // namespace superpipe
