#include "residency/pieces/buffer_cache.h"

#include <algorithm>

namespace superpipe {

void BufferCache::expect(Bytes footprint) {
  SameSize& same_size = by_footprint_[footprint.count()];
  if (same_size.cached.capacity() <= same_size.buffers) {
    same_size.cached.reserve(2 * same_size.buffers + 2);
  }
  ++same_size.buffers;
}

void BufferCache::unexpect(Bytes footprint) noexcept {
  const auto found = by_footprint_.find(footprint.count());
  if (--found->second.buffers == 0) by_footprint_.erase(found);
}

void BufferCache::insert(BufferId id, Bytes footprint, Bytes bytes, bool oldest) noexcept {
  SameSize& same_size = by_footprint_.find(footprint.count())->second;
  auto& cached = same_size.cached;
  cached.insert(oldest ? cached.begin() : cached.end(), id);
  bytes_ += bytes;
  if (oldest && same_size.over > 0) {  // younger ones are in no use any more
    ++same_size.over;
    over_bytes_ += bytes;
  }
}

bool BufferCache::erase(BufferId id, Bytes footprint, Bytes bytes) noexcept {
  const auto found = by_footprint_.find(footprint.count());
  if (found == by_footprint_.end()) return false;
  auto& cached = found->second.cached;
  const auto at = std::find(cached.begin(), cached.end(), id);
  if (at == cached.end()) return false;
  if (static_cast<std::size_t>(at - cached.begin()) < found->second.over) {
    --found->second.over;
    over_bytes_ -= bytes;
  }
  cached.erase(at);
  bytes_ -= bytes;
  return true;
}

const std::vector<BufferId>& BufferCache::of(Bytes footprint) const {
  static const std::vector<BufferId> none;
  const auto found = by_footprint_.find(footprint.count());
  return found == by_footprint_.end() ? none : found->second.cached;
}

std::vector<BufferId> BufferCache::oldest_of_each_size() const {
  std::vector<BufferId> oldest;
  for (const auto& [footprint, same_size] : by_footprint_) {
    if (!same_size.cached.empty()) oldest.push_back(same_size.cached.front());
  }
  return oldest;
}

void BufferCache::clear() noexcept {
  for (auto& [footprint, same_size] : by_footprint_) {
    same_size.cached.clear();
    same_size.over = 0;
  }
  bytes_ = over_bytes_ = Bytes{};
}

}  // namespace superpipe
