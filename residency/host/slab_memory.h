// The memory of slabs, as the system maps it.
#pragma once

#include <cstddef>

#include "policy/units.h"

namespace superpipe {

/// The size of the large memory pages that a kernel may use for memory without a file: that of
/// x86-64, and of ARM where ordinary pages have 4 KiB.
inline constexpr Bytes kLargeMemoryPage = 2_MiB;

/// Maps `size` bytes, whole memory pages, which read as zero and take no room before they are
/// touched or pinned. unmap_slab_memory() gives them back.
///
/// From kLargeMemoryPage on they begin at a multiple of it, and the kernel is asked for large pages
/// (madvise(2), MADV_HUGEPAGE), which take fewer steps to touch and to pin. What is behind the last
/// whole one has ordinary pages, so that no byte more is taken than `size`. A kernel that has none,
/// or none to spare, gives ordinary ones.
///
/// The child of a fork has nothing there (MADV_DONTFORK). It could not use it, and the kernel would
/// copy all that is pinned while the program forks, since pinned pages cannot be shared.
/// @return null if the system has no such range.
[[nodiscard]] std::byte* map_slab_memory(Bytes size) noexcept;

/// Has the system give `size` bytes from `data` on their memory, by as many as four threads at
/// once, so that to pin them takes the driver less: one thread was seen to get 2 to 7 GB/s, four 9.
/// The content stays. What cannot be had now, or so, is left to the driver; below 8 MiB all is.
///
/// REQUIRES: whole memory pages, mapped. Blocks for as long as the system takes. Any thread.
void populate_slab_memory(std::byte* data, Bytes size) noexcept;

/// REQUIRES: map_slab_memory(size) gave `data`, and it is not pinned.
void unmap_slab_memory(std::byte* data, Bytes size) noexcept;

}  // namespace superpipe
