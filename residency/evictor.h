// Carries out the eviction of one piece.
#pragma once

#include <vector>

#include "residency/content_mover.h"
#include "residency/manager_mutex.h"
#include "residency/residency_core.h"
#include "residency/result.h"
#include "residency/stream_marker.h"

namespace superpipe {

/// Takes pieces out, with the device calls that this takes.
///
/// A part of the manager, under its mutex, which it opens for each call of the device. Waits for no
/// work of the program: write-backs are enqueued, and events mark their ends. It may wait, bounded,
/// for a slab. Whatever fails, the newest content stays in at least one place (I3).
class Evictor {
 public:
  Evictor(ResidencyCore& core, StreamMarker& streams, ContentMover& mover)
      : core_(core), streams_(streams), mover_(mover) {}

  /// Takes out a piece of a buffer that nothing uses any more: unmaps it first, then copies its
  /// content (I2). REQUIRES: kIn, and that the events of all uses of the buffer have completed.
  void evict(PieceId id) noexcept REQUIRES(manager_lock);

 private:
  Status prepare_write_back(PieceId id, std::vector<EventRef>& after) noexcept
      REQUIRES(manager_lock);

  ResidencyCore& core_;
  StreamMarker& streams_;
  ContentMover& mover_;
};

}  // namespace superpipe
