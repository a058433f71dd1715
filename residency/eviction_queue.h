// The evictions that were decided on and wait for their buffers' last uses to end.
#pragma once

#include <chrono>
#include <cstdint>
#include <list>
#include <optional>
#include <span>
#include <vector>

#include "residency/manager_mutex.h"
#include "residency/residency_core.h"
#include "residency/stream_marker.h"
#include "residency/use_completion.h"

namespace superpipe {

/// Requests evictions, revokes them, and tells which one can be carried out.
///
/// An eviction holds a ticket of its buffer. Whoever uses the buffer again revokes the ticket, and
/// the eviction is void. A part of the manager, under its mutex; waits on nothing.
class EvictionQueue {
 public:
  EvictionQueue(ResidencyCore& core, StreamMarker& streams, UseCompletion& completion)
      : core_(core), streams_(streams), completion_(completion) {}

  /// Queues evictions of those `victims` that may go, after marking the present end of every stream
  /// that used them. The operation that is about to be submitted is not covered, so that evictions
  /// wait for earlier work only. Opens the mutex. Throws std::bad_alloc.
  /// @return the bytes that will come free.
  Bytes request(std::span<const BufferId> victims) REQUIRES(manager_lock);

  /// Has policy choose victims that free `needed` bytes, and requests their evictions. Opens the
  /// mutex. O(buffers) where policy is not asked for each transfer. Throws std::bad_alloc.
  Bytes request_bytes(Bytes needed) REQUIRES(manager_lock);

  /// The same for what launch number `launch` is expected to need: takes only buffers that are used
  /// later and whose uses so far are known to have completed, and none if those are too few, or
  /// policy is not asked for each transfer.
  Bytes request_bytes_used_after(std::uint64_t launch, Bytes needed) REQUIRES(manager_lock);

  /// Whether the buffer may go, as far as is known before its streams are marked.
  [[nodiscard]] bool may_go(const Buffer& buffer) const REQUIRES(manager_lock) {
    return buffer.live && buffer.place == Place::kIn && buffer.pins == 0 && buffer.host.pins == 0 &&
           !buffer.pinned_forever && !buffer.page_is_untracked && buffer.evict_ticket == 0 &&
           buffer.evict_failed != core_.turns;
  }

  /// The buffer stays: its eviction, if there is one, is void.
  void revoke(BufferId id) REQUIRES(manager_lock) {
    if (core_.buffers[id].evict_ticket == 0) return;
    spend_ticket(core_.buffers[id]);
    core_.tell_whereabouts(id);
  }

  /// A buffer whose last uses have completed, so that it can be taken out at once; its ticket is
  /// spent. Drops what is void or has waited too long. Opens the mutex. nullopt: none.
  std::optional<BufferId> take_next() REQUIRES(manager_lock);

  [[nodiscard]] bool empty() const REQUIRES(manager_lock) { return pending_.empty(); }
  [[nodiscard]] std::size_t size() const REQUIRES(manager_lock) { return pending_.size(); }
  void clear() REQUIRES(manager_lock) { pending_.clear(); }

 private:
  /// To be carried out when `events` have completed.
  struct Eviction {
    BufferId id;
    std::uint64_t generation;
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
    kImpossible,  ///< a use was on a stream that nobody but its own thread can mark
  };
  Coverage coverage_of(const Buffer& buffer, std::vector<EventRef>& events,
                       std::uint64_t& to_record) const REQUIRES(manager_lock);
  /// Which victims are acceptable.
  enum class Waiting {
    kNone,     ///< those that can go at once
    kAllowed,  ///< those as well whose uses may not have completed
  };
  /// Those that policy would let go for what launch number `launch` needs, as many as free `needed`
  /// bytes, or all.
  struct Choice {
    std::vector<BufferId> victims;
    Bytes bytes;
  };
  Choice choose(AutoPolicy& policy, std::uint64_t launch, Bytes needed, Waiting waiting) const
      REQUIRES(manager_lock);
  Bytes queue(const WantedBuffer& victim, std::uint64_t seq) REQUIRES(manager_lock);
  void spend_ticket(Buffer& buffer) REQUIRES(manager_lock) {
    core_.ledger.withdraw(buffer.footprint);
    buffer.evict_ticket = 0;
  }
  bool is_void(const Eviction& eviction) const REQUIRES(manager_lock);

  ResidencyCore& core_;
  StreamMarker& streams_;
  UseCompletion& completion_;
  std::list<Eviction> pending_ GUARDED_BY(manager_lock);
  std::uint64_t tickets_ GUARDED_BY(manager_lock) = 0;
};

}  // namespace superpipe
