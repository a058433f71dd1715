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
#include "residency/manager_mutex.h"
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

/// One managed buffer. `base` and `size` are read without the manager's mutex. While content moves,
/// only who moves it changes page, slab and footprint. Fields that a launch touches come first.
struct alignas(64) Buffer {
  std::atomic<Address> base{0};
  /// Mask of slots with uses since it came in.
  std::uint64_t uses GUARDED_BY(manager_lock) = 0;
  /// Mask of slots ordered behind `ready`.
  std::uint64_t waited GUARDED_BY(manager_lock) = 0;
  /// Sequence of its last submitted use.
  std::uint64_t last_use GUARDED_BY(manager_lock) = 0;
  /// Completes when its content has arrived; null: it has.
  EventRef ready GUARDED_BY(manager_lock);
  /// The collection that named it last (to name it once).
  std::uint64_t mark GUARDED_BY(manager_lock) = 0;
  /// Operations between begin and end.
  std::uint32_t pins GUARDED_BY(manager_lock) = 0;
  Place place GUARDED_BY(manager_lock) = Place::kOut;
  // -- second cache line
  /// As the program asked, in bytes.
  std::atomic<std::uint64_t> size{0};
  /// Bytes of its pages.
  Bytes footprint GUARDED_BY(manager_lock);
  Want want GUARDED_BY(manager_lock) = Want::kNobody;
  /// The program has it; else it is cached, or an unused id.
  bool live GUARDED_BY(manager_lock) = false;
  /// Never written: there is no content to keep.
  bool fresh GUARDED_BY(manager_lock) = true;
  /// The page may be newer than the slab.
  bool dirty GUARDED_BY(manager_lock) = false;
  /// Never to be moved again.
  bool pinned_forever GUARDED_BY(manager_lock) = false;
  /// A transfer of ours on its page has an end that no event marks: never moved, never reused.
  bool page_is_untracked GUARDED_BY(manager_lock) = false;
  /// Policy has been told that it is on the device, or on its way there.
  bool told_in GUARDED_BY(manager_lock) = false;
  /// Its demand is served over the limit.
  bool may_exceed_limit GUARDED_BY(manager_lock) = false;
  /// Why its last demand failed.
  Status fetch_status GUARDED_BY(manager_lock) = Status::kOk;
  /// Of the eviction that is to take it; 0: none.
  std::uint64_t evict_ticket GUARDED_BY(manager_lock) = 0;
  /// The turn in which an eviction of it failed: it is not chosen again in that turn; 0: none.
  std::uint64_t evict_failed GUARDED_BY(manager_lock) = 0;
  /// Counts lives of the id, so that stale jobs are seen.
  std::uint64_t generation GUARDED_BY(manager_lock) = 0;
  std::optional<Page> page GUARDED_BY(manager_lock);
  HostCopy host GUARDED_BY(manager_lock);
  /// Cached: what must complete before others use it; null: all has.
  EventRef freed GUARDED_BY(manager_lock);
  Slot freed_on GUARDED_BY(manager_lock) = kNoSlot;

  /// Whether content moves at this moment, with calls of ours under way.
  [[nodiscard]] bool is_moving() const REQUIRES(manager_lock) {
    return place == Place::kFetching || place == Place::kEvicting;
  }
  /// Whether a launch on `slot` lacks nothing of it: it is in place, and its content
  /// has arrived or the stream was made to wait for it.
  [[nodiscard]] bool is_ready_for(Slot slot) const REQUIRES(manager_lock) {
    if (place != Place::kIn) return false;
    return ready == nullptr || ready->is_known() ||
           (slot < StreamTable::kShared && (waited >> slot & 1) != 0);
  }
};

/// Buffers by id. Ids are small and reused, last freed first; buffers never move.
///
/// operator[] is lock-free.
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
  std::optional<BufferId> create() REQUIRES(manager_lock);
  /// Forgets the buffer; its id will come again. Its generation goes on. Allocates nothing.
  void destroy(BufferId id) noexcept REQUIRES(manager_lock);

  /// REQUIRES: create() has returned `id` once.
  [[nodiscard]] Buffer& operator[](BufferId id) const noexcept {
    const std::uint32_t index = index_of(id);
    return chunks_[index / kChunk].load(std::memory_order_acquire)[index % kChunk];
  }

  /// Ids are below it.
  [[nodiscard]] std::uint32_t end() const REQUIRES(manager_lock) { return end_; }

 private:
  std::array<std::atomic<Buffer*>, kChunks> chunks_{};
  std::uint32_t end_ GUARDED_BY(manager_lock) = 0;
  std::vector<BufferId> unused_ GUARDED_BY(manager_lock);
};

}  // namespace superpipe
