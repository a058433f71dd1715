// Free ranges of an address space, physical or virtual.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

namespace simgpu {

/// Hands out ranges of [base, base + size), lowest first, so that addresses repeat when a program
/// repeats itself. Not thread-safe. O(free ranges).
class Extents {
 public:
  Extents(std::uint64_t base, std::uint64_t size) {
    if (size != 0) free_.emplace(base, size);
  }

  /// A range of `size` bytes at a multiple of `alignment` (a power of two); nullopt if none is
  /// free.
  std::optional<std::uint64_t> take(std::uint64_t size, std::uint64_t alignment);

  /// Gives a range back. REQUIRES that it was taken.
  void give_back(std::uint64_t base, std::uint64_t size);

 private:
  std::map<std::uint64_t, std::uint64_t> free_;  ///< base to size; never adjacent
};

}  // namespace simgpu
