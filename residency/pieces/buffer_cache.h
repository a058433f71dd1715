// Freed buffers that keep their pages in place, for the next allocation of their size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "policy/units.h"

namespace superpipe {

/// Ids of cached buffers by the footprint of their pages, and how old they are.
///
/// Room for a buffer is made when it comes to be (expect), so that caching it never fails. Not
/// thread-safe: under the manager's mutex.
class BufferCache {
 public:
  /// A buffer of `footprint` comes to be, cached or not: there is room for it from now on. Throws
  /// std::bad_alloc, with nothing changed.
  void expect(Bytes footprint);
  /// The buffer is no more. REQUIRES: expect() for it, and that it is not cached.
  void unexpect(Bytes footprint) noexcept;

  /// Caches `id`, of which pages of `bytes` are in place. REQUIRES: expect() for it. Allocates
  /// nothing.
  void insert(BufferId id, Bytes footprint, Bytes bytes) noexcept {
    insert(id, footprint, bytes, false);
  }
  /// The same, as the one that was freed first.
  void insert_oldest(BufferId id, Bytes footprint, Bytes bytes) noexcept {
    insert(id, footprint, bytes, true);
  }

  /// Takes `id` out, with the pages that it was cached with.
  /// @return false if it is not cached. O(cached buffers of the footprint).
  bool erase(BufferId id, Bytes footprint, Bytes bytes) noexcept;

  /// The cached buffers of `footprint`, oldest first; valid until the next change.
  [[nodiscard]] const std::vector<BufferId>& of(Bytes footprint) const;

  /// The oldest cached buffer of each footprint. Throws std::bad_alloc.
  [[nodiscard]] std::vector<BufferId> oldest_of_each_size() const;

  /// What the pages of all cached buffers in place take.
  [[nodiscard]] Bytes bytes() const { return bytes_; }

  /// Finds out which buffers nothing uses any more: `is_over(id)` says it of one, and says it from
  /// then on; `bytes_of(id)` is what it was cached with. O(footprints), and amortised O(1) for each
  /// buffer.
  template <typename IsOver, typename BytesOf>
  void settle(const IsOver& is_over, const BytesOf& bytes_of) {
    for (auto& [footprint, same_size] : by_footprint_) {
      for (; same_size.over < same_size.cached.size(); ++same_size.over) {
        const BufferId id = same_size.cached[same_size.over];
        if (!is_over(id)) break;
        over_bytes_ += bytes_of(id);
      }
    }
  }
  /// Of bytes(), those that something may still use, as far as settle() has found out.
  [[nodiscard]] Bytes busy_bytes() const { return bytes_ - over_bytes_; }

  /// Forgets all cached buffers; the room for them stays.
  void clear() noexcept;

 private:
  struct SameSize {
    std::vector<BufferId> cached;  ///< oldest first; has room for all that exist
    std::size_t buffers = 0;       ///< that exist, cached or not
    std::size_t over = 0;          ///< so many of `cached`, the oldest, are known to be in no use
  };

  void insert(BufferId id, Bytes footprint, Bytes bytes, bool oldest) noexcept;

  std::unordered_map<std::uint64_t, SameSize> by_footprint_;
  Bytes bytes_;
  Bytes over_bytes_;
};

}  // namespace superpipe
