// Which uses of buffers have completed, as far as it is known without waiting.
#pragma once

#include "residency/manager_mutex.h"
#include "residency/residency_core.h"
#include "residency/stream_marker.h"

namespace superpipe {

/// Keeps StreamTable's knowledge of what has completed up to date, by one event at a time for each
/// stream: who chooses a victim sees at once whether its last use is over.
///
/// A part of the manager, under its mutex. Waits on nothing.
class UseCompletion {
 public:
  UseCompletion(ResidencyCore& core, StreamMarker& streams) : core_(core), streams_(streams) {}

  /// Asks the device about each stream with uses that are not known to have completed, and marks
  /// its end where no event is awaited. One query and one record for each such stream. Opens the
  /// mutex. Throws std::bad_alloc. @return whether an event is awaited, so that asking again helps.
  bool advance() REQUIRES(manager_lock);

  /// Whether all uses of the buffer are known to have completed. Its content may still be coming,
  /// which takes no more than its time on the link.
  [[nodiscard]] bool is_over(const Buffer& buffer) const REQUIRES(manager_lock);

 private:
  bool ask(Slot slot) REQUIRES(manager_lock);

  ResidencyCore& core_;
  StreamMarker& streams_;
};

}  // namespace superpipe
