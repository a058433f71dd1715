// The evictions that were decided on and wait for the last uses of their buffers to end.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <list>
#include <optional>
#include <span>
#include <vector>

#include "residency/manager_mutex.h"
#include "residency/residency_core.h"
#include "residency/room/pages_lacking.h"
#include "residency/transfer/content_mover.h"
#include "residency/transfer/stream_marker.h"
#include "residency/transfer/use_completion.h"

namespace superpipe {

/// Requests evictions, revokes them, and tells which one can be carried out.
///
/// An eviction holds a ticket of its piece. An operation that uses the buffer again revokes the
/// tickets of its pieces, and the evictions are void. A part of the manager, under its mutex; waits
/// on nothing.
class EvictionQueue {
 public:
  EvictionQueue(ResidencyCore& core, StreamMarker& streams, ContentMover& mover,
                UseCompletion& completion)
      : core_(core), streams_(streams), mover_(mover), completion_(completion) {}

  /// Queues evictions of those pieces of `victims` that may go, until they free `needed` bytes,
  /// after marking the present end of every stream that used them. The operation that is about to
  /// be submitted is not covered, so that evictions wait for earlier work only. Opens the mutex.
  /// Throws std::bad_alloc.
  /// @return the bytes that will come free.
  Bytes request(std::span<const BufferId> victims, Bytes needed) REQUIRES(manager_lock);
  /// The same for all their pieces.
  Bytes request(std::span<const BufferId> victims) REQUIRES(manager_lock);

  /// Has policy choose victims that free `needed` bytes, and requests their evictions. Prefers
  /// pages of the sizes that are lacking, so that they can be used as they are, and buffers whose
  /// uses so far are known to have completed. Opens the mutex. O(buffers) where policy is not asked
  /// for each transfer. Throws std::bad_alloc.
  Bytes request_bytes(Bytes needed, const PagesLacking& pages) REQUIRES(manager_lock);
  /// The same, of buffers whose uses so far are known to have completed, though they free fewer
  /// bytes. REQUIRES: policy is asked for each transfer.
  Bytes request_bytes_at_once(Bytes needed, const PagesLacking& pages) REQUIRES(manager_lock);

  /// The same for a piece of `size` that policy wants: takes only buffers that are used after
  /// `target` is, and whose uses so far are known to have completed, and none if those are too few,
  /// or policy is not asked for each transfer. What is only supposed to be used is not worth a pin.
  Bytes request_bytes_used_after(const AutoPolicy::Target& target, Bytes needed, Bytes size)
      REQUIRES(manager_lock);

  /// Of core.obtainable(), what does not wait for work of the program that uses freed buffers, and
  /// is not spared for its next allocations. These are mostly the same.
  [[nodiscard]] Bytes obtainable_at_once() REQUIRES(manager_lock) {
    const Bytes busy = completion_.busy_cached();
    return std::min(saturating_subtract(core_.obtainable(), busy), core_.obtainable_ahead());
  }

  /// Whether the last choice of victims left one out whose uses are about to complete, as far as
  /// that can be known.
  [[nodiscard]] bool awaits_victims() const REQUIRES(manager_lock) { return awaits_victims_; }

  /// Whether pieces of the buffer may go, as far as is known before its streams are marked.
  [[nodiscard]] static bool may_go(const Buffer& buffer) REQUIRES(manager_lock) {
    return buffer.live && buffer.pins == 0 && buffer.host.pins == 0 && !buffer.pinned_forever &&
           !buffer.stays && buffer.missing < buffer.pieces.size();
  }
  /// Whether this piece may go. REQUIRES: may_go() of its buffer.
  [[nodiscard]] bool may_go(const Piece& piece) const REQUIRES(manager_lock) {
    return piece.is_in() && !piece.page_is_untracked && piece.evict_ticket == 0 &&
           piece.evict_failed != core_.turns;
  }

  /// Whether any piece of the buffer with a page of a size that is lacking may go.
  [[nodiscard]] bool has_victim(const Buffer& buffer, const PagesLacking& pages) const
      REQUIRES(manager_lock);

  /// The buffer stays: the evictions of its pieces, if there are any, are void.
  void revoke(BufferId id) REQUIRES(manager_lock) {
    if (core_.buffers[id].evictions_requested != 0) revoke_all(id);
  }

  /// A piece of a buffer whose last uses have completed, so that it can be taken out at once; its
  /// ticket is spent. It has the slab that it needs, unless there can be none, and the program does
  /// not work on that, so that its write-back waits for nothing of the program's. Drops what is
  /// void or has waited too long. Asks the device once about each event that evictions wait for.
  /// Opens the mutex, and takes as long as a slab may take. nullopt: none.
  std::optional<PieceId> take_next() REQUIRES(manager_lock);

  [[nodiscard]] bool empty() const REQUIRES(manager_lock) { return pending_.empty(); }
  [[nodiscard]] std::size_t size() const REQUIRES(manager_lock) { return pending_.size(); }
  void clear() REQUIRES(manager_lock) { pending_.clear(); }

 private:
  /// A piece, as it was when it was chosen.
  struct Victim {
    PieceId piece;
    std::uint64_t generation;
  };
  /// To be carried out when `events` have completed.
  struct Eviction {
    Victim victim;
    std::uint64_t ticket;
    std::uint64_t seq;  ///< uses after it revoke the eviction
    std::vector<EventRef> events;
    ResidencyCore::Clock::time_point since;
  };

  /// Whether events cover all uses of a buffer, and if not, whether they can.
  enum class Coverage {
    kComplete,    ///< events lie behind all uses
    kRecordable,  ///< they will, once the ends of some streams are marked
    kEnding,      ///< a stream is being destroyed, and its last event is about to be recorded
    kImpossible,  ///< a use was on a stream that only its own thread can mark
  };
  Coverage coverage_of(const Buffer& buffer, std::vector<EventRef>& events,
                       std::uint64_t& to_record) const REQUIRES(manager_lock);
  /// Which victims are acceptable.
  struct Terms {
    std::uint64_t launch;  ///< they are expected to be used after it
    bool may_wait;         ///< their uses may not have completed yet
    PagesLacking pages;    ///< of which they have one
    bool may_pin = true;   ///< they may need slabs that have to be pinned first
  };
  /// Pieces that policy would let go, as many as free the bytes that are needed, or all.
  struct Choice {
    std::vector<PieceId> victims;
    Bytes bytes;
  };
  Choice choose(AutoPolicy& policy, const Terms& terms, Bytes needed) REQUIRES(manager_lock);
  void add_pieces(BufferId id, PagesLacking& pages, Bytes needed, Choice& choice) const
      REQUIRES(manager_lock);
  [[nodiscard]] PagesLacking still_lacking(const PagesLacking& pages) const REQUIRES(manager_lock);
  Bytes request(std::span<const PieceId> victims) REQUIRES(manager_lock);
  Bytes queue(const Victim& victim, std::uint64_t seq) REQUIRES(manager_lock);
  void revoke_all(BufferId id) REQUIRES(manager_lock);
  void spend_ticket(PieceId id) REQUIRES(manager_lock);
  bool is_void(const Eviction& eviction) const REQUIRES(manager_lock);
  [[nodiscard]] bool holds_its_ticket(const Eviction& eviction) const REQUIRES(manager_lock);
  bool can_write_back(PieceId id, std::optional<Bytes>& refused) REQUIRES(manager_lock);

  ResidencyCore& core_;
  StreamMarker& streams_;
  ContentMover& mover_;
  UseCompletion& completion_;
  std::list<Eviction> pending_ GUARDED_BY(manager_lock);
  std::uint64_t tickets_ GUARDED_BY(manager_lock) = 0;
  bool awaits_victims_ GUARDED_BY(manager_lock) = false;
};

}  // namespace superpipe
