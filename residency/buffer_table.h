// Every managed buffer: what it is, where its newest content is, and who still uses it.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "policy/units.h"
#include "residency/device_memory.h"
#include "residency/event_pool.h"
#include "residency/fetch_queue.h"
#include "residency/host_copy.h"
#include "residency/page_pool.h"
#include "residency/result.h"
#include "residency/stream_table.h"

namespace superpipe {

/// Where a buffer stands. With the flags of Buffer this gives the states of docs/residency.md,
/// "A buffer":
///   Fresh    : `fresh`, wherever it stands
///   Host     : kOut, its write-back complete
///   Fetching : kFetching, and kIn until `ready` has completed (launches may be submitted then)
///   Resident : kIn, `ready` complete
///   Evicting : kEvicting, and kOut until `host.write_back` has completed
enum class Place : std::uint8_t {
  kOut,       ///< not mapped; the newest content is in the slab (or there is none yet)
  kFetching,  ///< the worker (or its allocator) is bringing it in, with calls under way
  kIn,        ///< mapped; content valid for streams ordered behind `ready`
  kEvicting,  ///< the worker is taking it out, with calls under way
};

/// One managed buffer. All fields are the manager's mutex's, but base and size, which are read
/// without it. Fields that a launch touches come first.
struct alignas(64) Buffer {
  std::atomic<Address> base{0};
  std::uint64_t uses = 0;      ///< mask of slots with uses since it came in
  std::uint64_t waited = 0;    ///< mask of slots ordered behind `ready`
  std::uint64_t last_use = 0;  ///< sequence of its last submitted use
  EventRef ready;              ///< completes when its content has arrived; null: it has
  std::uint64_t mark = 0;      ///< the collection that named it last (to name it once)
  std::uint32_t pins = 0;      ///< operations between begin and end
  Place place = Place::kOut;
  // -- second cache line
  std::atomic<std::uint64_t> size{0};  ///< as the program asked
  Bytes footprint;                     ///< of its pages
  Want want = Want::kNobody;
  bool live = false;                  ///< the program has it; else cached or an unused id
  bool fresh = true;                  ///< never written: no content to keep
  bool dirty = false;                 ///< the page may be newer than the slab
  bool pinned_forever = false;        ///< never to be moved again
  bool page_is_untracked = false;     ///< a transfer of ours on its page has an end that no event
                                      ///< marks: never moved, never reused
  bool may_exceed_limit = false;      ///< its demand is served over the limit
  Status fetch_status = Status::kOk;  ///< why its last demand failed
  std::uint64_t evict_ticket = 0;     ///< of the eviction that is to take it; 0: none
  std::uint64_t evict_failed = 0;     ///< the turn in which an eviction of it failed: it is not
                                      ///< chosen again in that turn; 0: none
  std::uint64_t generation = 0;       ///< counts lives of the id, so that stale jobs are seen
  std::optional<Page> page;
  HostCopy host;
  EventRef freed;  ///< cached: what must complete before others use it; null: all has
  Slot freed_on = kNoSlot;

  /// Whether content moves at this moment, with calls of ours under way.
  [[nodiscard]] bool is_moving() const {
    return place == Place::kFetching || place == Place::kEvicting;
  }
  /// Whether a launch on `slot` lacks nothing of it: it is in place, and its content
  /// has arrived or the stream was made to wait for it.
  [[nodiscard]] bool is_ready_for(Slot slot) const {
    if (place != Place::kIn) return false;
    return ready == nullptr || ready->is_known() ||
           (slot < StreamTable::kShared && (waited >> slot & 1) != 0);
  }
};

/// Buffers by id. Ids are small and reused, last freed first; buffers never move.
///
/// create() and destroy() are the caller's to serialise; operator[] is lock-free.
class BufferTable {
 public:
  static constexpr std::uint32_t kChunk = 256;
  static constexpr std::uint32_t kChunks = 4096;

  BufferTable() = default;
  ~BufferTable();
  BufferTable(const BufferTable&) = delete;
  BufferTable& operator=(const BufferTable&) = delete;

  /// A new id with a fresh buffer; nullopt if there are a million already. Throws std::bad_alloc,
  /// with nothing changed.
  std::optional<BufferId> create();
  /// Forgets the buffer; its id will come again. Its generation goes on. Allocates nothing.
  void destroy(BufferId id) noexcept;

  /// REQUIRES: create() has returned `id` once.
  [[nodiscard]] Buffer& operator[](BufferId id) const noexcept {
    const std::uint32_t index = index_of(id);
    return chunks_[index / kChunk].load(std::memory_order_acquire)[index % kChunk];
  }

  /// Ids are below it.
  [[nodiscard]] std::uint32_t end() const { return end_; }

 private:
  std::array<std::atomic<Buffer*>, kChunks> chunks_{};
  std::uint32_t end_ = 0;
  std::vector<BufferId> unused_;
};

}  // namespace superpipe
