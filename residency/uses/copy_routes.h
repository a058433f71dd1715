// Where the program's linear copies go: to the device, or to the host copy of an evicted buffer.
#pragma once

#include <cstdint>
#include <span>

#include "residency/host/host_copy.h"
#include "residency/manager_mutex.h"
#include "residency/residency_core.h"
#include "residency/result.h"
#include "residency/transfer/content_mover.h"
#include "residency/transfer/host_digests.h"
#include "residency/transfer/stream_marker.h"
#include "residency/uses/use_token.h"
#include "residency/uses/use_tracker.h"

namespace superpipe {

/// Decides the route of a copy and pins the buffer there until its end. A copy to or from a buffer
/// that is out goes to its host copy, so that nothing has to be fetched for it.
///
/// A part of the manager. begin() is ResidencyManager's begin_copy_in() and begin_copy_out(), and
/// begin_in_place() its begin_copy_in_place().
class CopyRoutes {
 public:
  CopyRoutes(ResidencyCore& core, StreamMarker& streams, ContentMover& mover, UseTracker& uses,
             HostDigests& digests)
      : core_(core), streams_(streams), mover_(mover), uses_(uses), digests_(digests) {}

  /// `in`: the copy writes the buffer. `may_come_in`: where it cannot go to the host copy, and the
  /// buffer is out, that comes in; else kNotYet is returned.
  Result<CopyRoute> begin(Address address, Bytes size, StreamHandle stream, bool in,
                          UseToken& token, bool may_come_in = true) EXCLUDES(manager_lock);

  /// A copy on the device: the buffer comes in if it is out.
  Result<CopyRoute> begin_in_place(Address address, Bytes size, StreamHandle stream, bool in,
                                   UseToken& token) EXCLUDES(manager_lock);

  /// Ends a copy with a host route. REQUIRES: token.is_host_route().
  void end(UseToken& token, StreamHandle stream, bool submitted) noexcept EXCLUDES(manager_lock);

 private:
  Status begin_on_device(BufferId id, const UseTracker::Use& use, UseToken& token)
      REQUIRES(manager_lock);
  Status begin_host_route(BufferId id, std::span<const Piece> pieces, const UseTracker::Use& use,
                          UseToken& token) REQUIRES(manager_lock);
  Status order_host_route(HostCopy& copy, std::span<const Piece> pieces, const UseTracker::Use& use)
      REQUIRES(manager_lock);

  ResidencyCore& core_;
  StreamMarker& streams_;
  ContentMover& mover_;
  UseTracker& uses_;
  HostDigests& digests_;
};

}  // namespace superpipe
