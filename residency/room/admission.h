// Gets everything that one operation needs onto the device, or says why that cannot be.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "policy/policy_engine.h"
#include "residency/manager_mutex.h"
#include "residency/pieces/page_supply.h"
#include "residency/residency_core.h"
#include "residency/result.h"
#include "residency/room/eviction_queue.h"
#include "residency/room/pages_lacking.h"
#include "residency/transfer/pacing.h"

namespace superpipe {

class Turn;

/// The buffers that one operation needs on the device together.
struct WorkingSet {
  std::span<const BufferId> buffers;
  KernelId kernel{};  ///< of a launch; KernelId{}: another operation
  /// A part of it can be left out, so that the user need not be told if it is too large.
  bool may_shrink = false;
  /// Of the stream that it is submitted to; kNoSlot: of none.
  Slot slot = kNoSlot;
  /// Of the operation. Null: it waits for no others to leave, and what is missing may exceed the
  /// limit.
  Turn* turn = nullptr;
};

/// Demands what a working set lacks, and has room made for it, until all of it is in place.
///
/// A part of the manager, under its mutex. Waits for the worker and, bounded by the wait limit, for
/// work of the program; work that does not end is not waited for long (I7).
class Admission {
 public:
  Admission(ResidencyCore& core, PageSupply& pages, EvictionQueue& evictions)
      : core_(core), pages_(pages), evictions_(evictions) {}

  /// Gets every buffer of `set` mapped, and does what policy wants done before. REQUIRES: they are
  /// pinned. The turn ends as soon as no room is needed any more. On
  /// failure the caller takes the demands back. Throws std::bad_alloc.
  /// @return kWorkingSetTooLarge (I4), kOutOfDeviceMemory, kDeviceError, kTimedOut.
  Status bring_in(const WorkingSet& set, const Decision& decision) REQUIRES(manager_lock);

  /// Takes back what a failed operation asked for. A fetch that has begun goes on, but its outcome
  /// is not told to the operation that names the buffer next.
  void give_up(const WorkingSet& set) noexcept REQUIRES(manager_lock);

  /// Says why `set` is not brought in. @return kWorkingSetTooLarge. Throws std::bad_alloc.
  Status refuse(const WorkingSet& set) REQUIRES(manager_lock);

  /// Gets the pages down to `bytes`, taking the turn. Waits at most `limit`. @return whether it
  /// came about.
  bool shrink_to(Bytes bytes, std::chrono::milliseconds limit) noexcept REQUIRES(manager_lock);

 private:
  /// What bring_in() remembers from one look to the next.
  struct Attempt {
    Bytes working_set;
    ResidencyCore::Clock::time_point deadline;
    /// Each time that it passes, one look counts only idle pages as room, so that victims are asked
    /// for in place of those that are stuck; then it moves on by a step.
    ResidencyCore::Clock::time_point patience;
    std::chrono::nanoseconds patience_step;
    std::uint64_t errors_before;    ///< counted when it began
    std::size_t full_devices_left;  ///< times that the driver may have no memory within the limit
    bool seeks_no_room = false;     ///< all that is missing comes, or may exceed the limit
    bool sampled = false;           ///< the device was asked about pass-through memory
    bool settled = false;           ///< and what of it is this process's
    bool hurried = false;           ///< the worker was told that content on its way is waited for
    Pacing::Rest rest{};
  };
  /// What a working set lacks.
  struct Missing {
    bool any = false;    ///< a buffer is not in place
    bool comes = false;  ///< some of it is on its way
    bool out = false;    ///< some of it is not
    Bytes pages;         ///< that have to be found
    Bytes fetched;       ///< those of `pages` whose content crosses the link
    Bytes largest;       ///< of the pages
    PagesLacking sizes;  ///< of those pages
  };
  /// What of it does not come free by itself.
  struct Lacking {
    Bytes pages;
    Bytes at_once;  ///< of what crosses the link, to be had from what nothing uses at this moment
    bool is_impatient = false;     ///< the attempt has waited long
    bool chooses_at_once = false;  ///< what nothing uses is looked for first

    [[nodiscard]] bool is_nothing() const { return pages == Bytes{} && at_once == Bytes{}; }
  };
  enum class Next { kWait, kLookAgain };

  void follow(const Decision& decision) REQUIRES(manager_lock);
  void let_others_go() REQUIRES(manager_lock);
  void prefetch(BufferId id) REQUIRES(manager_lock);
  Attempt begin(const WorkingSet& set) const REQUIRES(manager_lock);
  Result<Missing> demand_missing(const WorkingSet& set, Attempt& attempt) REQUIRES(manager_lock);
  Status demand(PieceId id, Attempt& attempt) REQUIRES(manager_lock);
  Status refuse_too_large(const WorkingSet& set, Attempt& attempt) REQUIRES(manager_lock);
  void note_refusal(const WorkingSet& set, const Attempt& attempt) REQUIRES(manager_lock);
  Result<Next> find_room(const WorkingSet& set, const Missing& missing, Attempt& attempt)
      REQUIRES(manager_lock);
  Lacking look_for_room(const Missing& missing, Attempt& attempt) REQUIRES(manager_lock);
  bool request_room(const Missing& missing, const Lacking& lacking) REQUIRES(manager_lock);
  bool request_at_once(const Missing& missing, const Lacking& lacking) REQUIRES(manager_lock);
  Result<Next> do_without_room(const WorkingSet& set, Attempt& attempt) REQUIRES(manager_lock);
  bool rests(const WorkingSet& set, const Missing& missing, Pacing::Rest& rest)
      REQUIRES(manager_lock);
  Status wait(Bytes needed, Attempt& attempt) REQUIRES(manager_lock);
  void wait_for(const std::vector<BufferId>& prefetched, ResidencyCore::Clock::time_point deadline)
      REQUIRES(manager_lock);
  bool others_move(const WorkingSet& set) const REQUIRES(manager_lock);
  [[nodiscard]] bool pages_are_coming(Bytes needed) const REQUIRES(manager_lock) {
    return core_.obtainable() >= needed || !evictions_.empty() || core_.ledger.expects_pages() ||
           core_.cache.bytes() > Bytes{};
  }

  [[nodiscard]] bool is_small_memory_to_blame(KernelId kernel) REQUIRES(manager_lock);
  void warn_immovable(const Attempt& attempt) REQUIRES(manager_lock);
  void warn_overflow(const Attempt& attempt) REQUIRES(manager_lock);
  void warn_expired(Bytes needed) REQUIRES(manager_lock);
  void warn_not_lowered() REQUIRES(manager_lock);

  ResidencyCore& core_;
  PageSupply& pages_;
  EvictionQueue& evictions_;
};

}  // namespace superpipe
