// The streams that use managed buffers, as small numbers, so that a buffer's users fit in a mask.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "policy/units.h"
#include "residency/device_memory.h"
#include "residency/streams/event_pool.h"
#include "residency/streams/shared_uses.h"
#include "residency/tuning.h"

namespace superpipe {

/// A position in the stream table; bit n of a use mask is slot n.
using Slot = std::uint8_t;
/// In place of a slot: the stream is being captured, or is gone. Larger than all slots.
inline constexpr Slot kNoSlot = 0xFF;

/// Gives streams slots 0..62; slot 63 is shared by all streams beyond those.
///
/// Most slots are *lazy*: an event is recorded on the stream only when something must wait for its
/// uses. *Eager* ones get an event behind every use: the per-thread default stream, which only its
/// own thread can record on, and the shared slot: what its streams use is told apart by those
/// events (SharedUses).
/// Not thread-safe: under the manager's mutex. Calls no device function.
class StreamTable {
 public:
  static constexpr Slot kShared = 63;
  static constexpr auto kMostAwaited = tuning::kMarksAwaited;

  struct Entry {
    StreamHandle stream{};
    std::uint64_t thread = 0;  ///< for kPerThreadStream: its thread; else 0
    /// Set once that thread has ended; null for other streams, or if nothing will tell.
    std::shared_ptr<const std::atomic<bool>> has_ended;
    bool used = false;
    bool retired = false;        ///< destroyed, or its thread has ended; waits for its last uses
    std::uint64_t last_use = 0;  ///< sequence of the last use submitted to it
    EventRef latest;             ///< covers uses up to latest->seq
    /// Each moves `completed` on once it has completed; the earliest first, kMostAwaited at most.
    std::vector<EventRef> awaited;
    std::uint64_t completed = 0;  ///< uses up to this sequence are known to have completed
    Bytes unawaited;              ///< of buffers used since the last one that is awaited
    /// Threads that touch the stream beside what the program does with it: it must not go away, nor
    /// the slot be used again, before they are done.
    std::uint32_t visitors = 0;
  };

  /// The slot of `stream` (of the calling thread, if per-thread), entered if it is new. Throws
  /// std::bad_alloc.
  Slot slot_of(StreamHandle stream);

  /// The slot that slot_of() would give, if the stream has one of its own.
  [[nodiscard]] std::optional<Slot> find(StreamHandle stream) const;

  /// Whether uses on the slot need an event each.
  [[nodiscard]] bool eager(Slot slot) const {
    return slot == kShared || entries_[slot].stream == kPerThreadStream;
  }

  [[nodiscard]] Entry& entry(Slot slot) { return entries_[slot]; }

  /// Makes sure that one more use of the shared slot can be noted. Throws std::bad_alloc.
  void prepare_shared() { shared_.reserve(); }

  /// Notes a use that was submitted; for eager slots `event` lies behind it (null if it could not
  /// be recorded: what was used on the slot is then not evictable until one can). REQUIRES: for the
  /// shared slot, prepare_shared(). Allocates nothing.
  void note_use(Slot slot, StreamHandle stream, std::uint64_t seq, EventRef event) noexcept;

  /// Whether any stream ever had to do with the shared slot.
  [[nodiscard]] bool has_shared() const { return has_shared_; }
  /// All uses of the shared slot that are not known to be over.
  [[nodiscard]] SharedUses& shared() { return shared_; }

  /// Whether an event covers the uses on `slot` up to `seq`; if so, appends what to wait for.
  /// REQUIRES: it is not the shared slot.
  bool covered(Slot slot, std::uint64_t seq, std::vector<EventRef>& events) const;

  /// Whether the uses on `slot` up to `seq` are known to have completed. REQUIRES: it is not the
  /// shared slot.
  [[nodiscard]] bool is_over(Slot slot, std::uint64_t seq) const {
    return std::min(seq, entries_[slot].last_use) <= entries_[slot].completed;
  }

  /// Whether all uses are known to have completed.
  [[nodiscard]] bool is_all_over() const {
    const auto is_over = [](const Entry& entry) { return entry.last_use <= entry.completed; };
    return shared_.is_over() && std::all_of(entries_.begin(), entries_.begin() + end_, is_over);
  }

  /// The number up to which all uses are known to have completed, where `seq` were submitted;
  /// nullopt: that is not known, because a use of the shared slot could not be noted. O(streams).
  [[nodiscard]] std::optional<std::uint64_t> completed_to(std::uint64_t seq) const {
    if (shared_.is_lost()) return std::nullopt;
    seq = shared_.completed_to(seq);
    for (Slot slot = 0; slot < end_; ++slot) {
      const Entry& entry = entries_[slot];
      if (entry.used && entry.last_use > entry.completed) seq = std::min(seq, entry.completed);
    }
    return seq;
  }

  /// Whether all uses on other slots are known to have completed. O(streams).
  [[nodiscard]] bool has_no_work_beside(Slot slot) const {
    if (!shared_.is_over()) return false;
    for (Slot other = 0; other < end_; ++other) {
      if (other != slot && entries_[other].last_use > entries_[other].completed) return false;
    }
    return true;
  }

  /// Slots are below it, except kShared.
  [[nodiscard]] Slot end() const { return end_; }

  /// Whether any thread may record on the slot's stream.
  [[nodiscard]] bool recordable(Slot slot) const { return !eager(slot) && !entries_[slot].retired; }

  /// Whether its stream is being destroyed, and about to get its last event.
  [[nodiscard]] bool ending(Slot slot) const {
    return entries_[slot].retired && entries_[slot].visitors > 0;
  }

  /// Notes an event recorded behind everything submitted to the slot up to event->seq.
  void note_event(Slot slot, EventRef event) noexcept;

  /// Uses of the slot up to this number are known to have completed, or will be once all that is
  /// awaited has.
  [[nodiscard]] std::uint64_t awaited_to(Slot slot) const {
    const Entry& entry = entries_[slot];
    return entry.awaited.empty() ? entry.completed : entry.awaited.back()->seq;
  }
  /// From here on the latest event of the slot is awaited, if it tells more than those that are.
  /// Does nothing where kMostAwaited are. Allocates nothing.
  void await_latest(Slot slot) noexcept;

  /// The program destroys the stream: no thread may begin to visit it any more, and its slot is
  /// recycled when its last uses have completed.
  void retire(Slot slot) { entries_[slot].retired = true; }

  /// Retires the per-thread streams of threads that have ended: nothing submits to them any more.
  void retire_ended() noexcept;

  /// Slots of retired streams whose uses have completed, now free; the caller must clear their
  /// bits in all masks before it calls slot_of() again.
  std::uint64_t recycle();

 private:
  std::array<Entry, kShared + 1> entries_;
  SharedUses shared_;
  bool has_shared_ = false;
  Slot end_ = 0;  // slots at and past it were never used
};

/// A number of the calling thread's own, never reused.
[[nodiscard]] std::uint64_t this_thread_number();

/// The thread that `stream` belongs to, as a use of it on the shared slot has it: the number of the
/// calling thread for kPerThreadStream, else 0.
[[nodiscard]] std::uint64_t thread_of(StreamHandle stream);

}  // namespace superpipe
