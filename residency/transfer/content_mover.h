// Carries out the fetch of one piece.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <vector>

#include "residency/manager_mutex.h"
#include "residency/pieces/page_supply.h"
#include "residency/residency_core.h"
#include "residency/result.h"
#include "residency/transfer/page_mover.h"
#include "residency/transfer/stream_marker.h"

namespace superpipe {

/// Gets pieces in place, with the device calls that this takes.
///
/// A piece that is fetched is mapped at its address when its content is there and not before: a
/// kernel that uses it through a pointer which nothing of ours has seen waits for no event of ours,
/// and would read what the page had before, or write what the copy then overwrites. Until then it
/// is kArriving, and settle_arrivals() brings that to its end. Content that comes behind work of
/// the program is mapped at once: a launch that waits for it on the host could be what that work
/// waits for (I7). So is what a new buffer gets, which no kernel can know yet, and all where
/// ResidencyOptions::maps_early says so.
///
/// A part of the manager, under its mutex, which it opens for each call of the device. Waits for no
/// work of the program: transfers are enqueued, and events mark their ends. It may wait, bounded,
/// for a sample of the device, and for a slab that is being pinned. Whatever fails, the newest
/// content stays in at least one place (I3).
class ContentMover {
 public:
  ContentMover(ResidencyCore& core, StreamMarker& streams, PageSupply& pages, PageMover& page_mover)
      : core_(core), streams_(streams), pages_(pages), page_mover_(page_mover) {}

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

  /// Fills `page` with what a piece of a new buffer has at first, and maps it. REQUIRES: kFetching;
  /// afterwards it is kIn or, on failure, kOut, and the page is the pool's.
  Status attach(PieceId id, Page page) noexcept REQUIRES(manager_lock) {
    return attach(id, std::move(page), Mapping::kAtOnce, /*demand=*/false);
  }

  /// Maps the pieces whose content has arrived since. Asks the device about the oldest copy that is
  /// under way. While something waits, a piece whose content does not come is mapped all the same:
  /// what holds the copy back may wait for the program in a way that no event tells (I7), as where
  /// streams share a queue of the device. @return whether there were any.
  bool settle_arrivals() noexcept REQUIRES(manager_lock);
  /// Takes pieces of a buffer that is freed out of that, so that the free need not wait for them:
  /// they are out, and their `ready` says when their page and their slab may be used. Not one that
  /// is being mapped at this moment.
  void cancel_arrivals(BufferId id) noexcept REQUIRES(manager_lock);
  /// Whether pieces wait for their content, to be mapped then.
  [[nodiscard]] bool awaits_arrivals() const REQUIRES(manager_lock) { return core_.arrivals > 0; }
  /// REQUIRES: nothing asks for them any more.
  void clear() REQUIRES(manager_lock) {
    arrivals_.clear();
    core_.arrivals = 0;
  }

  /// Makes what is in place of a cached buffer, taken out of the cache, as new for `stream`.
  Status renew(BufferId id, std::optional<StreamHandle> stream) REQUIRES(manager_lock);

  /// Whether operations of the program on the slab (`writes_only`: that write it) are not known to
  /// have completed, as far as events mark their ends. Asks the device. Opens the mutex.
  bool awaits_operations(const HostCopy& copy, bool writes_only) noexcept REQUIRES(manager_lock);

  /// Gets the buffer its slab, if it has none. REQUIRES: nothing else is getting it
  /// (host.is_mapping). @return kOutOfHostMemory, kDeviceError; kNotYet: HostStore::acquire().
  Status ensure_slab(Buffer& buffer, bool zeroed, HostStore::User user = HostStore::User::kEviction)
      REQUIRES(manager_lock);
  /// The same for the eviction of a piece of it.
  Status ensure_slab_to_leave(Buffer& buffer) REQUIRES(manager_lock) {
    // The other pieces may never be written to it.
    const bool zeroed = core_.options.zero_fill && buffer.pieces.size() > 1;
    return ensure_slab(buffer, zeroed, HostStore::User::kEviction);
  }

  /// The page that piece `index` of `buffer` has, or gets.
  [[nodiscard]] static PageMover::Place place_of(const Buffer& buffer, std::uint32_t index,
                                                 const Page& page) REQUIRES(manager_lock) {
    return {buffer.address_of(index), buffer.bytes_of(index), page.handle, page.window};
  }
  /// Maps a piece that is out and has its page, which has the content still. @return the device's
  /// answer: if that is no kOk, it is out as before.
  Status remap(PieceId id) REQUIRES(manager_lock);

 private:
  using Mapping = PageMover::Mapping;
  /// A piece that is kArriving: it has its page, and is not mapped yet.
  struct Arrival {
    PieceId piece;
    EventRef done;
    bool demand;
    ResidencyCore::Clock::time_point since;
    bool is_being_mapped = false;
    bool is_cancelled = false;
  };

  Status attach(PieceId id, Page page, Mapping mapping, bool demand) noexcept
      REQUIRES(manager_lock);
  void warn_late(const Arrival& arrival) noexcept REQUIRES(manager_lock);
  [[nodiscard]] bool is_overdue(const Arrival& arrival) const REQUIRES(manager_lock);
  /// What is known of an arrival that comes to its end.
  enum class Content {
    kThere,
    kOnItsWay,  ///< it is mapped early
    kUnknown,   ///< the device does not tell
  };
  void finish_arrival(const Arrival& arrival, Content content) noexcept REQUIRES(manager_lock);
  void give_up_arrival(const Arrival& arrival, Content content, Status status) noexcept
      REQUIRES(manager_lock);
  Status prepare_fetch(PieceId id, std::vector<EventRef>& after, std::size_t& own) noexcept
      REQUIRES(manager_lock);
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
  PageMover& page_mover_;
  std::list<Arrival> arrivals_ GUARDED_BY(manager_lock);  ///< as they were enqueued
  std::list<Arrival> spare_ GUARDED_BY(manager_lock);     ///< at most one: the next one's node
  /// When the last one came to its end.
  ResidencyCore::Clock::time_point arrived_at_ GUARDED_BY(manager_lock);
};

}  // namespace superpipe
