#include "tools/simgpu/driver/memory/extents.h"

#include <iterator>

namespace simgpu {

std::optional<std::uint64_t> Extents::take(std::uint64_t size, std::uint64_t alignment) {
  for (auto range = free_.begin(); range != free_.end(); ++range) {
    const std::uint64_t base = range->first;
    const std::uint64_t end = base + range->second;
    const std::uint64_t start = (base + alignment - 1) & ~(alignment - 1);
    if (start < base || start > end || end - start < size) continue;
    free_.erase(range);
    if (start > base) free_.emplace(base, start - base);
    if (start + size < end) free_.emplace(start + size, end - start - size);
    return start;
  }
  return std::nullopt;
}

void Extents::give_back(std::uint64_t base, std::uint64_t size) {
  auto next = free_.lower_bound(base);
  if (next != free_.end() && base + size == next->first) {
    size += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto previous = std::prev(next);
    if (previous->first + previous->second == base) {
      previous->second += size;
      return;
    }
  }
  free_.emplace(base, size);
}

}  // namespace simgpu
