// Carries out one fetch or one eviction of one buffer.
#pragma once

#include <cstdint>
#include <vector>

#include "residency/manager_mutex.h"
#include "residency/page_supply.h"
#include "residency/residency_core.h"
#include "residency/result.h"
#include "residency/stream_marker.h"

namespace superpipe {

/// Moves a buffer between Place::kOut and Place::kIn, with the device calls that this takes.
///
/// A part of the manager, under its mutex, which it opens for each call of the device. Waits for no
/// work of the program: transfers are enqueued, and events mark their ends. It may wait for a
/// sample of the device and, bounded, for a slab. Whatever fails, the newest content
/// stays in at least one place (I3).
class ContentMover {
 public:
  ContentMover(ResidencyCore& core, StreamMarker& streams, PageSupply& pages)
      : core_(core), streams_(streams), pages_(pages) {}

  /// Brings in a buffer that is out, for a demand or a prefetch. Its outcome is in the buffer.
  /// @return false if there is no page yet: the buffer is still wanted.
  bool fetch(BufferId id, bool demand) REQUIRES(manager_lock);

  /// Fills `page` with the buffer's content and maps it. REQUIRES: kFetching; afterwards it is kIn
  /// or, on failure, kOut, and the page is the pool's.
  Status attach(BufferId id, Page page) noexcept REQUIRES(manager_lock);

  /// Takes out a buffer that nothing uses any more: unmaps it first, then copies its content (I2).
  /// REQUIRES: kIn, and that the events of all its uses have completed.
  void evict(BufferId id) noexcept REQUIRES(manager_lock);

  /// Makes a cached buffer, taken out of the cache and in kFetching, as new for `stream`, and kIn.
  Status renew(BufferId id, std::optional<StreamHandle> stream) REQUIRES(manager_lock);

  /// Gets the buffer its slab, if it has none. REQUIRES: kEvicting, or host.is_mapping set by the
  /// caller. @return kOutOfHostMemory, kDeviceError.
  Status ensure_slab(Buffer& buffer, bool zeroed) REQUIRES(manager_lock);

 private:
  /// What a fetch copies onto a page.
  struct Content {
    bool exists;  ///< false: the buffer was never written
    Slab slab;
    Bytes size;
  };

  Status prepare_fetch(Buffer& buffer, std::vector<EventRef>& after) noexcept
      REQUIRES(manager_lock);
  Status prepare_write_back(Buffer& buffer, std::vector<EventRef>& after) noexcept
      REQUIRES(manager_lock);
  Transferred fill(const Page& page, const Content& content, std::vector<EventRef>& after)
      EXCLUDES(manager_lock);
  void give_up_attach(Buffer& buffer, Page page, const Transferred& filled,
                      std::vector<EventRef> after) noexcept REQUIRES(manager_lock);
  Status remap(Buffer& buffer) REQUIRES(manager_lock);
  bool postpone(BufferId id, bool demand) REQUIRES(manager_lock);

  ResidencyCore& core_;
  StreamMarker& streams_;
  PageSupply& pages_;
};

}  // namespace superpipe
