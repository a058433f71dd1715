// Physical device pages: created rarely, reused by exact size, each mapped at a window as long as
// they exist.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "policy/units.h"
#include "residency/device_memory.h"
#include "residency/pieces/arena.h"
#include "residency/result.h"
#include "residency/streams/event_pool.h"

namespace superpipe {

/// The memory of one piece: one handle, mapped at `window` as long as it exists.
struct Page {
  PageHandle handle{};
  Bytes size;
  Address window = 0;
  /// Bytes at and past it are known to be zero (only kept where new memory has to read as zero).
  Bytes extent;
  /// What must have completed before the next owner touches the page (a running write-back).
  std::vector<EventRef> after;

  /// The latest digest that may still read it; null: none. The page may be filled under it, if
  /// nothing wants its result then, but not destroyed.
  EventRef digest;
  /// When that was enqueued.
  std::chrono::steady_clock::time_point digested_at{};

  /// What `after` has room for: a write-back, and the arrival of content.
  static constexpr std::size_t kMostAfter = 2;

  /// Forgets what is known to have completed.
  void forget_completed() noexcept {
    std::erase_if(after, [](const EventRef& event) { return event->is_known(); });
  }
};

/// The pages that no buffer holds, and the windows.
///
/// Idle pages are the caller's to serialise (its mutex); create() and destroy() call the device and
/// are to be called without that mutex: they lock for what they share themselves. Only create() may
/// run out of host memory: a page always has a place here to come back to.
class PagePool {
 public:
  /// REQUIRES: [windows, windows + size) is reserved and outlives the pool.
  PagePool(DeviceMemory& device, Address windows, Bytes size, Bytes granule);

  /// An idle page of exactly `size`: the longest idle, whose write-back is the likeliest done.
  /// O(log sizes), as take_any().
  std::optional<Page> take(Bytes size) noexcept;
  /// The largest idle page, to be destroyed.
  std::optional<Page> take_any() noexcept;
  void put(Page page) noexcept;
  /// Keeps a page on which a transfer with an unknown end may still run: it serves nothing any
  /// more, until take_untracked(), when all work has ended.
  void keep_untracked(Page page) noexcept;
  std::optional<Page> take_untracked() noexcept;

  /// @name Pages that come back soon
  /// @{
  /// A page of `size` that is in use will be put back before long. O(log sizes), as the others.
  void expect(Bytes size) noexcept;
  /// One such page is not expected any more.
  void cease_to_expect(Bytes size) noexcept;
  [[nodiscard]] bool expects(Bytes size) noexcept;
  /// @}

  [[nodiscard]] Bytes idle_bytes() const { return idle_bytes_; }
  /// Bytes of idle pages of exactly `size`. O(log sizes).
  [[nodiscard]] Bytes idle_bytes_of(Bytes size) noexcept;
  [[nodiscard]] bool empty() const { return idle_pages_ == 0; }
  [[nodiscard]] std::size_t idle_pages() const { return idle_pages_; }

  /// Creates pages and maps their window. Thread-safe. Cost: create, map and set-access.
  /// @return kOutOfDeviceMemory, kOutOfHostMemory, kDeviceError; nothing is then left behind.
  Result<Page> create(Bytes size);
  /// Unmaps the window and destroys the pages. REQUIRES: all of `after` has completed. Thread-safe.
  /// @return kDeviceError; the bytes stay the caller's to count, and it may try again later.
  Status destroy(Page& page);

 private:
  using Pages = std::list<Page>;
  /// The pages of one size.
  struct SameSize {
    Pages idle;                ///< the longest idle first
    std::size_t pages = 0;     ///< that exist, idle or not
    std::size_t expected = 0;  ///< of them, to be put back soon
  };
  std::optional<Page> take_idle(Pages& idle) noexcept;
  std::optional<Page> take_first(Pages& pages) noexcept;
  void put_to(Pages& pages, Page page) noexcept;
  void uncount(Bytes size) noexcept;

  DeviceMemory& device_;
  std::mutex mutex_;  // of windows_, spare_ and by_size_
  AddressRanges windows_;
  Pages spare_;  // as many nodes as pages exist that are not here
  std::map<Bytes, SameSize> by_size_;
  Pages untracked_;
  std::size_t idle_pages_ = 0;
  Bytes idle_bytes_;
};

}  // namespace superpipe
