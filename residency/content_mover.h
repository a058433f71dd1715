// Carries out the fetch of one piece.
#pragma once

#include <cstdint>
#include <vector>

#include "residency/manager_mutex.h"
#include "residency/page_supply.h"
#include "residency/residency_core.h"
#include "residency/result.h"
#include "residency/stream_marker.h"

namespace superpipe {

/// Gets pieces in place, with the device calls that this takes.
///
/// A part of the manager, under its mutex, which it opens for each call of the device. Waits for no
/// work of the program: transfers are enqueued, and events mark their ends. It may wait, bounded,
/// for a sample of the device, and for a slab that is being pinned. Whatever fails, the newest
/// content stays in at least one place (I3).
class ContentMover {
 public:
  ContentMover(ResidencyCore& core, StreamMarker& streams, PageSupply& pages)
      : core_(core), streams_(streams), pages_(pages) {}

  /// Brings in a piece that is out, for a demand or a prefetch. Its outcome is in the piece.
  /// @return false if there is no page yet: the piece is still wanted.
  bool fetch(PieceId id, bool demand) REQUIRES(manager_lock);

  /// Fills `page` with the piece's content and maps it. REQUIRES: kFetching; afterwards it is kIn
  /// or, on failure, kOut, and the page is the pool's. `demand`: a launch waited for it when it was
  /// begun, as traces tell.
  Status attach(PieceId id, Page page, bool demand = false) noexcept REQUIRES(manager_lock);

  /// Makes what is in place of a cached buffer, taken out of the cache, as new for `stream`.
  Status renew(BufferId id, std::optional<StreamHandle> stream) REQUIRES(manager_lock);

  /// Gets the buffer its slab, if it has none. REQUIRES: nobody else is getting it
  /// (host.is_mapping). @return kOutOfHostMemory, kDeviceError; kNotYet: HostStore::acquire().
  Status ensure_slab(Buffer& buffer, bool zeroed, HostStore::User user = HostStore::User::kEviction)
      REQUIRES(manager_lock);
  /// The same for the eviction of a piece of it.
  Status ensure_slab_to_leave(Buffer& buffer) REQUIRES(manager_lock) {
    // The other pieces may never be written to it.
    const bool zeroed = core_.options.zero_fill && buffer.pieces.size() > 1;
    return ensure_slab(buffer, zeroed, HostStore::User::kEviction);
  }

 private:
  Status prepare_fetch(PieceId id, std::vector<EventRef>& after) noexcept REQUIRES(manager_lock);
  Transferred fill(const Page& page, const Slab& content, std::vector<EventRef>& after)
      EXCLUDES(manager_lock);
  void give_up_attach(PieceId id, Page page, const Transferred& filled,
                      std::vector<EventRef> after) noexcept REQUIRES(manager_lock);
  Status remap(PieceId id) REQUIRES(manager_lock);
  Status zero(PieceId id) REQUIRES(manager_lock);
  bool is_being_digested(const Page& page) REQUIRES(manager_lock);
  bool postpone(PieceId id, bool demand) REQUIRES(manager_lock);

  ResidencyCore& core_;
  StreamMarker& streams_;
  PageSupply& pages_;
};

}  // namespace superpipe
