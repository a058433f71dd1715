#include "policy/buffer_history.h"

#include <algorithm>

namespace superpipe {

void BufferHistory::on_allocate(BufferId id, Bytes footprint) {
  if (index_of(id) >= buffers_.size()) buffers_.resize(index_of(id) + std::size_t{1});
  Buffer& buffer = buffers_[index_of(id)];
  buffer = {};
  buffer.footprint = footprint;
  buffer.exists = true;
}

void BufferHistory::on_free(BufferId id) {
  if (find(id) != nullptr) buffers_[index_of(id)].exists = false;
}

std::vector<Bytes> BufferHistory::footprints() const {
  std::vector<Bytes> footprints(buffers_.size());
  for (std::size_t at = 0; at < buffers_.size(); ++at) footprints[at] = buffers_[at].footprint;
  return footprints;
}

std::vector<ResidentBuffer> BufferHistory::by_last_use(std::span<const BufferId> candidates) const {
  std::vector<ResidentBuffer> resident;
  resident.reserve(candidates.size());
  for (const BufferId id : candidates) {
    const Buffer* const buffer = find(id);
    if (buffer == nullptr) continue;
    resident.push_back({id, buffer->footprint, kNeverUsedAgain, buffer->last_use});
  }
  return resident;
}

Bytes BufferHistory::used_since(std::uint64_t launch) const {
  Bytes used;
  for (const Buffer& buffer : buffers_) {
    if (buffer.exists && buffer.last_use > launch) used += buffer.footprint;
  }
  return used;
}

Bytes BufferHistory::largest() const {
  Bytes largest;
  for (const Buffer& buffer : buffers_) {
    if (buffer.exists) largest = std::max(largest, buffer.footprint);
  }
  return largest;
}

}  // namespace superpipe
