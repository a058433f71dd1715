// What the worker does in a round: measures, keeps within the limit, fetches, evicts.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "residency/manager_mutex.h"
#include "residency/pieces/page_supply.h"
#include "residency/residency_core.h"
#include "residency/room/eviction_queue.h"
#include "residency/room/left_out_buffers.h"
#include "residency/room/precleaner.h"
#include "residency/transfer/content_mover.h"
#include "residency/transfer/evictor.h"
#include "residency/transfer/use_completion.h"
#include "residency/worker.h"

namespace superpipe {

/// Carries out the fetches that are wanted and the evictions that were requested, as far as no
/// waiting is needed. Fetches go first, so that a page that came free is filled before the next one
/// is freed. Where policy is asked for each transfer, it is asked for the next one whenever the
/// link is about to run dry and nothing else is wanted. A part of the manager, under its mutex,
/// which it opens for each call of the device.
class MoverRounds : public WorkerRounds {
 public:
  MoverRounds(ResidencyCore& core, PageSupply& pages, ContentMover& mover, Evictor& evictor,
              UseCompletion& completion, EvictionQueue& evictions, LeftOutBuffers& left_out,
              Precleaner& precleaner)
      : core_(core),
        pages_(pages),
        mover_(mover),
        evictor_(evictor),
        completion_(completion),
        evictions_(evictions),
        left_out_(left_out),
        precleaner_(precleaner) {}

  bool run() noexcept override REQUIRES(manager_lock);
  [[nodiscard]] bool is_pending() const override REQUIRES(manager_lock);
  [[nodiscard]] bool is_awaited() const override REQUIRES(manager_lock) {
    return core_.waits.waiters > 0 && !core_.pacing.has_resting();
  }
  [[nodiscard]] std::chrono::nanoseconds longest_rest() const override REQUIRES(manager_lock);

 private:
  bool poll_meters() noexcept REQUIRES(manager_lock);
  template <typename Meter>
  bool poll(Meter& meter) REQUIRES(manager_lock);
  [[nodiscard]] bool must_relieve() const REQUIRES(manager_lock);
  bool relieve() noexcept REQUIRES(manager_lock);
  bool settle_arrivals() noexcept REQUIRES(manager_lock);
  bool fetch_next() REQUIRES(manager_lock);
  bool pull() REQUIRES(manager_lock);
  enum class Next {
    kWanted,    ///< there is work for the next round
    kAskAgain,  ///< soon: policy has not looked at everything, or something has changed
    kLater,     ///< when a transfer that is under way has ended
    kInTime,    ///< at rests_until_, unless something changes before
    kNothing,   ///< nothing is to be brought, or nothing may go for it
  };
  Next want_next(AutoPolicy& policy) REQUIRES(manager_lock);
  bool want_empty(AutoPolicy& policy) noexcept REQUIRES(manager_lock);
  Next want(AutoPolicy& policy, const AutoPolicy::Target& target) REQUIRES(manager_lock);
  void await_launch() REQUIRES(manager_lock);
  void note_under_way(PieceId id, ResidencyCore::Clock::time_point begun) noexcept
      REQUIRES(manager_lock);
  void take_back_prefetches() REQUIRES(manager_lock);
  void rest_from_pulling() REQUIRES(manager_lock);
  bool poll_link() noexcept REQUIRES(manager_lock);
  bool note_completed_uses() noexcept REQUIRES(manager_lock);
  void note_progress() REQUIRES(manager_lock);
  void wake_rested_demand() REQUIRES(manager_lock);
  bool evict_next() REQUIRES(manager_lock);

  ResidencyCore& core_;
  PageSupply& pages_;
  ContentMover& mover_;
  Evictor& evictor_;
  UseCompletion& completion_;
  EvictionQueue& evictions_;
  LeftOutBuffers& left_out_;
  Precleaner& precleaner_;
  /// Until when the link may rest; nullopt: it does not rest for that.
  std::optional<ResidencyCore::Clock::time_point> rests_until_ GUARDED_BY(manager_lock);
  /// Whether policy may want a transfer, or would if more launches had come: else the next launch
  /// wakes the worker.
  bool pulls_ GUARDED_BY(manager_lock) = false;
  /// What policy wanted last had no room: which buffer may go for it depends on what has completed.
  bool lacks_room_ GUARDED_BY(manager_lock) = false;
  /// What policy wanted last comes once the link has hardly anything to do.
  bool awaits_link_ GUARDED_BY(manager_lock) = false;
  /// Whether the link had enough to do when it was last looked at.
  bool link_has_enough_ GUARDED_BY(manager_lock) = false;
  /// How many launches there had been when a prefetch failed last: what policy wants is not tried
  /// again before the next one.
  [[nodiscard]] std::uint64_t attempt_number(const AutoPolicy& policy) const REQUIRES(manager_lock);
  std::uint64_t failed_at_ GUARDED_BY(manager_lock) = ~std::uint64_t{0};
  /// The launch at which no empty buffer could be brought last.
  std::uint64_t no_empty_at_ GUARDED_BY(manager_lock) = 0;
  /// The launch at which policy wanted nothing last, and how often its forecast had changed when it
  /// wanted something.
  std::uint64_t rested_at_ GUARDED_BY(manager_lock) = 0;
  std::uint64_t jumps_ GUARDED_BY(manager_lock) = 0;
  /// How many samples there had been when relieve() last requested evictions because the limit had
  /// shrunk, and when it last found no buffer that could be evicted.
  std::uint64_t relieved_at_ GUARDED_BY(manager_lock) = ~std::uint64_t{0};
  std::uint64_t relieved_in_vain_ GUARDED_BY(manager_lock) = ~std::uint64_t{0};
};

}  // namespace superpipe
