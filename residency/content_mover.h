// Carries out the fetch of one piece.
#pragma once

#include <cstddef>
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

  /// What became of fetch().
  enum class Fetched {
    kSettled,  ///< the piece is not wanted any more, and has the outcome
    kNoPage,   ///< there is no page yet: the piece is still wanted
    kInUse,    ///< the program still writes the slab: the same, but others may go before
  };
  /// Brings in a piece that is out, for a demand or a prefetch.
  ///
  /// Behind work of the program that writes the slab, which may not end (I7), a prefetch is
  /// dropped, and a demand is copied on a stream that others do not share. So many may be under way
  /// at a time; more have to wait.
  Fetched fetch(PieceId id, bool demand) REQUIRES(manager_lock);

  /// Fills `page` with the piece's content and maps it. REQUIRES: kFetching; afterwards it is kIn
  /// or, on failure, kOut, and the page is the pool's. `demand`: a launch waited for it when it was
  /// begun, as traces tell.
  Status attach(PieceId id, Page page, bool demand = false) noexcept REQUIRES(manager_lock);

  /// Makes what is in place of a cached buffer, taken out of the cache, as new for `stream`.
  Status renew(BufferId id, std::optional<StreamHandle> stream) REQUIRES(manager_lock);

  /// Whether operations of the program on the slab (`writes_only`: that write it) are not known to
  /// have completed, as far as events mark their ends. Asks the device. Opens the mutex.
  bool awaits_operations(const HostCopy& copy, bool writes_only) noexcept REQUIRES(manager_lock);

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

  /// Maps a piece that is out and has its page, which has the content still. @return the device's
  /// answer: if that is no kOk, it is out as before.
  Status remap(PieceId id) REQUIRES(manager_lock);

 private:
  Status prepare_fetch(PieceId id, std::vector<EventRef>& after, std::size_t& own) noexcept
      REQUIRES(manager_lock);
  Transferred fill(const Page& page, const Slab& content, bool is_zero,
                   std::vector<EventRef>& after, std::size_t own) EXCLUDES(manager_lock);
  void give_up_attach(PieceId id, Page page, const Transferred& filled,
                      std::vector<EventRef> after) noexcept REQUIRES(manager_lock);
  Status zero(PieceId id) REQUIRES(manager_lock);
  bool is_being_digested(const Page& page) REQUIRES(manager_lock);
  bool may_copy(const Buffer& buffer, bool demand) noexcept REQUIRES(manager_lock);
  Fetched postpone(PieceId id, bool demand) REQUIRES(manager_lock);
  Fetched leave_for_later(PieceId id, bool demand) REQUIRES(manager_lock);

  ResidencyCore& core_;
  StreamMarker& streams_;
  PageSupply& pages_;
};

}  // namespace superpipe
