// Pinned host memory for evicted content: exact sizes, capped, recycled.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <list>
#include <mutex>
#include <vector>

#include "policy/units.h"
#include "residency/device_memory.h"
#include "residency/event_pool.h"
#include "residency/result.h"

namespace superpipe {

/// Pinned host memory that backs one buffer. Owned by whoever acquired it, until released.
struct Slab {
  std::byte* data = nullptr;
  Bytes size;

  [[nodiscard]] explicit operator bool() const { return data != nullptr; }
};

/// Hands out slabs within a cap. Thread-safe; calls the device without holding its lock.
///
/// Backing is reserved when a buffer is allocated (so that it is never missing at an eviction), but
/// mapped and pinned only when first needed. Slabs keep their pin when released, for the next
/// buffer of that size, as long as the cap allows.
class HostStore {
 public:
  HostStore(DeviceMemory& device, EventPool& events, Bytes limit,
            std::chrono::milliseconds wait_limit);
  HostStore(const HostStore&) = delete;
  HostStore& operator=(const HostStore&) = delete;

  /// The bytes that backing of `size` takes: whole memory pages, never a power of two.
  [[nodiscard]] static Bytes backing_of(Bytes size) { return round_up(size, Bytes{4096}); }

  /// Sets `size` (as backing_of gives it) aside. @return false: over the cap.
  bool reserve(Bytes size);
  void unreserve(Bytes size);

  /// A pinned slab of exactly `size` bytes within what was reserved; `zeroed`: it reads as zero.
  ///
  /// Waits, bounded, for transfers of slabs released earlier if the cap demands it.
  /// @return kOutOfHostMemory (also when pinning is refused), kDeviceError.
  Result<Slab> acquire(Bytes size, bool zeroed);

  /// Gives a slab back; it is touched again only when all of `after` has completed. Allocates
  /// nothing.
  void release(Slab slab, std::vector<EventRef> after) noexcept;

  /// Keeps a slab on which a transfer with an unknown end may still run: it serves nobody any more,
  /// until release_untracked(), when all work has ended.
  void keep_untracked(Slab slab) noexcept;
  void release_untracked() noexcept;

  /// Unpins and unmaps every idle slab whose transfers have completed.
  void trim();

  [[nodiscard]] Bytes limit() const { return limit_; }
  [[nodiscard]] Bytes reserved() const;
  [[nodiscard]] Bytes pinned() const;

 private:
  struct Idle {
    Slab slab;
    std::vector<EventRef> after;
  };

  using Slabs = std::list<Idle>;

  // The list of idle slabs is taken out to be worked on without the lock, by one thread at a time:
  // to another it would look as if there were none.
  Slabs take_idle();
  void put_idle(Slabs idle);
  void destroy(const Slab& slab);
  bool make_room(Bytes size, bool wait);

  DeviceMemory& device_;
  EventPool& events_;
  const Bytes limit_;
  const std::chrono::milliseconds wait_limit_;
  mutable std::mutex mutex_;
  std::condition_variable returned_;
  bool taken_ = false;
  Bytes reserved_;
  Bytes pinned_;
  Slabs idle_;   // released last at the back
  Slabs spare_;  // as many nodes as slabs are out, so that giving one back allocates nothing
  Slabs untracked_;
};

}  // namespace superpipe
