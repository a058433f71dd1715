#include "tools/simgpu/driver/memory/pinned_table.h"

#include <iterator>
#include <mutex>

#include "tools/simgpu/driver/entry/handle_table.h"

namespace simgpu {

bool PinnedTable::add(PinnedRange range) {
  const std::unique_lock lock{mutex_};
  const auto after = ranges_.upper_bound(range.base);
  if (after != ranges_.end() && after->first - range.base < range.size) return false;
  if (after != ranges_.begin()) {
    const PinnedRange& before = std::prev(after)->second;
    if (range.base - before.base < before.size) return false;
  }
  range.id = next_object_id();
  ranges_.emplace(range.base, range);
  return true;
}

std::optional<PinnedRange> PinnedTable::remove(std::uint64_t base, bool registered) {
  const std::unique_lock lock{mutex_};
  const auto found = ranges_.find(base);
  if (found == ranges_.end() || found->second.registered != registered) return std::nullopt;
  const PinnedRange range = found->second;
  ranges_.erase(found);
  return range;
}

std::optional<PinnedRange> PinnedTable::find(std::uint64_t address) {
  const std::shared_lock lock{mutex_};
  const auto after = ranges_.upper_bound(address);
  if (after == ranges_.begin()) return std::nullopt;
  const PinnedRange& range = std::prev(after)->second;
  if (address - range.base >= range.size) return std::nullopt;
  return range;
}

std::vector<PinnedRange> PinnedTable::remove_all_of(const Context& context) {
  std::vector<PinnedRange> removed;
  const std::unique_lock lock{mutex_};
  for (auto each = ranges_.begin(); each != ranges_.end();) {
    if (each->second.context == &context) {
      removed.push_back(each->second);
      each = ranges_.erase(each);
    } else {
      ++each;
    }
  }
  return removed;
}

}  // namespace simgpu
