// Which buffers to evict when device memory is needed.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "policy/units.h"

namespace superpipe {

/// The next-use distance of a buffer that is not expected to be used again.
inline constexpr std::uint64_t kNeverUsedAgain = ~std::uint64_t{0};

/// A buffer that has device pages and may be evicted now, as eviction weighs it.
struct ResidentBuffer {
  BufferId id;
  Bytes footprint;                           ///< what its eviction frees
  std::uint64_t next_use = kNeverUsedAgain;  ///< next-use distance; equal for all where unknown
  std::uint64_t last_use = 0;                ///< a stamp that grows with time; 0: never used
};

/// Chooses buffers whose eviction frees at least `needed` bytes of device memory.
///
/// Takes buffers by decreasing next-use distance, on a tie the one that was used longest ago:
/// Belady's MIN (IBM Systems Journal 5(2), 1966), which is optimal for equal sizes and a heuristic
/// for ours; least recently used where all distances are equal. A victim that a later, larger one
/// makes needless is dropped again. Pure. O(n log n). `candidates`: any order, unique ids, not
/// retained; the caller leaves out what may not be evicted now (buffers that are pinned).
/// @return Victims in eviction order, or nullopt if all candidates together are too small.
[[nodiscard]] std::optional<std::vector<BufferId>> plan_eviction(
    std::span<const ResidentBuffer> candidates, Bytes needed);

/// As plan_eviction(), but all candidates, in the same order, if together they are too small.
[[nodiscard]] std::vector<BufferId> plan_eviction_or_all(std::span<const ResidentBuffer> candidates,
                                                         Bytes needed);

}  // namespace superpipe
