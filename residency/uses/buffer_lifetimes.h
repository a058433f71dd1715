// The beginning and the end of a buffer's life, and its time in the cache.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "residency/manager_mutex.h"
#include "residency/pieces/page_supply.h"
#include "residency/residency_core.h"
#include "residency/result.h"
#include "residency/room/eviction_queue.h"
#include "residency/room/left_out_buffers.h"
#include "residency/room/precleaner.h"
#include "residency/transfer/content_mover.h"
#include "residency/transfer/host_digests.h"
#include "residency/transfer/stream_marker.h"
#include "residency/uses/use_token.h"

namespace superpipe {

/// Makes buffers for the program's allocations, from the cache or anew, and ends their lives. The
/// functions are those of ResidencyManager, which documents them. A part of the manager.
class BufferLifetimes {
 public:
  BufferLifetimes(ResidencyCore& core, StreamMarker& streams, PageSupply& pages,
                  ContentMover& mover, EvictionQueue& evictions, LeftOutBuffers& left_out,
                  HostDigests& digests, Precleaner& precleaner)
      : core_(core),
        streams_(streams),
        pages_(pages),
        mover_(mover),
        evictions_(evictions),
        left_out_(left_out),
        digests_(digests),
        precleaner_(precleaner) {}

  Result<Address> allocate(Bytes size, std::optional<StreamHandle> stream) EXCLUDES(manager_lock);
  Status free(Address base, std::optional<StreamHandle> stream,
              OtherUses others = OtherUses::kAwaited) noexcept EXCLUDES(manager_lock);

 private:
  /// A cached buffer, as it was when it was seen: the id may have come to name another since.
  struct Candidate {
    BufferId id;
    std::uint64_t generation;
  };

  std::optional<HostBacking::Share> reserve_share(Bytes size) REQUIRES(manager_lock);
  Result<Address> allocate_with(const HostBacking::Share& share, Bytes size,
                                std::optional<StreamHandle> stream) REQUIRES(manager_lock);
  std::optional<BufferId> claim_cached(Bytes footprint, std::optional<StreamHandle> stream,
                                       OtherUses others) REQUIRES(manager_lock);
  [[nodiscard]] bool is_over_beside(const Candidate& candidate) REQUIRES(manager_lock);
  bool claim(const Candidate& candidate, Bytes footprint) REQUIRES(manager_lock);
  Status reuse(BufferId id, Bytes size, std::optional<StreamHandle> stream) REQUIRES(manager_lock);
  Result<BufferId> create(Bytes size, Bytes footprint) REQUIRES(manager_lock);
  Result<BufferId> name(Bytes footprint) REQUIRES(manager_lock);
  void tell_of(BufferId id) REQUIRES(manager_lock);
  Status attach_first_pages(BufferId id) REQUIRES(manager_lock);
  Result<Page> acquire_first_page(Bytes bytes) REQUIRES(manager_lock);
  void begin_life(BufferId id, Bytes size, const HostBacking::Share& share) REQUIRES(manager_lock);
  std::optional<BufferId> find_base(Address base) const REQUIRES(manager_lock);
  void take_back_wants(BufferId id) noexcept REQUIRES(manager_lock);
  Slot slot_of_free(StreamHandle stream) noexcept REQUIRES(manager_lock);
  std::vector<EventRef> ends_beside(BufferId id, Slot slot) noexcept REQUIRES(manager_lock);
  static bool append_ends_on_slab(const Buffer& buffer, const EventRef& freed,
                                  std::vector<EventRef>& after) noexcept REQUIRES(manager_lock);
  static void note_beside(Buffer& buffer, const std::vector<EventRef>& ends) noexcept
      REQUIRES(manager_lock);
  void end_life(BufferId id, EventRef freed, Slot slot) noexcept REQUIRES(manager_lock);

  ResidencyCore& core_;
  StreamMarker& streams_;
  PageSupply& pages_;
  ContentMover& mover_;
  EvictionQueue& evictions_;
  LeftOutBuffers& left_out_;
  HostDigests& digests_;
  Precleaner& precleaner_;
};

}  // namespace superpipe
