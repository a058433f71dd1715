// Whom to evict.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "policy/units.h"

namespace superpipe {

/// The next-use distance of a buffer that is not expected to be used again.
inline constexpr std::uint64_t kNeverUsedAgain = ~std::uint64_t{0};

/// A buffer that has device pages, as eviction weighs it.
struct ResidentBuffer {
  BufferId id;
  Bytes footprint;                           ///< what its eviction frees
  std::uint64_t next_use = kNeverUsedAgain;  ///< next-use distance; equal for all where unknown
  std::uint64_t last_use = 0;                ///< a stamp that grows with time; 0: never used
  bool dirty = false;                        ///< its eviction has to write it back
  bool pinned = false;                       ///< may not be evicted now
};

/// Chooses buffers whose eviction frees at least `needed` bytes of device memory.
///
/// Unpinned buffers by decreasing next-use distance, clean before dirty on a tie, then the longer
/// unused first: Belady's MIN (IBM Systems Journal 5(2), 1966), optimal for equal sizes, a
/// heuristic for ours; least recently used where all distances are equal. A victim that a later,
/// larger one makes needless is dropped again. Pure. O(n log n). `resident`: any order, unique ids,
/// not retained.
/// @return Victims in eviction order, or nullopt if all unpinned buffers together are too small.
[[nodiscard]] std::optional<std::vector<BufferId>> plan_eviction(
    std::span<const ResidentBuffer> resident, Bytes needed);

}  // namespace superpipe
