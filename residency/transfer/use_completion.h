// Which uses of buffers have completed, as far as it is known without waiting.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "policy/units.h"
#include "residency/manager_mutex.h"
#include "residency/residency_core.h"
#include "residency/transfer/stream_marker.h"

namespace superpipe {

/// Keeps StreamTable's knowledge of what has completed up to date: the choice of a victim sees at
/// once whether its last use is over. The host may be a pass ahead of the device. So that buffers
/// become known to be free one after the other, not all at its end, the end of each stream is
/// marked again and again as work is submitted to it: by the thread that looks (advance()), and,
/// since a host that does not wait submits much work from one look to the next, by the launches
/// themselves (note_launch()).
///
/// A part of the manager, under its mutex. Waits on nothing.
class UseCompletion {
 public:
  UseCompletion(ResidencyCore& core, StreamMarker& streams) : core_(core), streams_(streams) {}

  /// Asks the device about the events that are awaited, the earliest of each stream until one has
  /// not completed, and marks the end of each stream that was used since the last. One query and
  /// one record for each such stream, and one query for each event that has completed. Tells the
  /// threads that wait. Opens the mutex. Throws std::bad_alloc. @return whether any event has
  /// completed.
  bool advance() REQUIRES(manager_lock);
  /// A launch on `slot` is about to use `buffers`. @return whether its end shall be marked, so that
  /// what is used until then becomes known to be free before what is used afterwards: where that
  /// takes more than one in tuning::kMarksOfRoom of what the device has room for. O(buffers).
  [[nodiscard]] bool note_launch(Slot slot, std::span<const BufferId> buffers)
      REQUIRES(manager_lock);
  /// That launch was submitted. Records one event at most. Opens the mutex. REQUIRES: the slot is
  /// in use.
  void mark_end(Slot slot) noexcept REQUIRES(manager_lock);

  /// Whether all uses of the buffer that are not known to have completed will be, once what is
  /// awaited has.
  [[nodiscard]] bool is_awaited(const Buffer& buffer) const REQUIRES(manager_lock);
  /// Whether an event is awaited, so that asking again helps.
  [[nodiscard]] bool is_awaiting() const REQUIRES(manager_lock) { return awaiting_; }

  /// What freed buffers keep that work of the program may still use. O(sizes of freed buffers).
  [[nodiscard]] Bytes busy_cached() REQUIRES(manager_lock);

  /// Whether all uses of the buffer are known to have completed. Its content may still be coming,
  /// which takes no more than its time on the link.
  [[nodiscard]] bool is_over(const Buffer& buffer) const REQUIRES(manager_lock);

 private:
  bool ask_shared() REQUIRES(manager_lock);
  bool has_completed_next(Slot slot) REQUIRES(manager_lock);

  ResidencyCore& core_;
  StreamMarker& streams_;
  bool awaiting_ GUARDED_BY(manager_lock) = false;
};

}  // namespace superpipe
