#include "residency/buffer_table.h"

#include <utility>

namespace superpipe {

BufferTable::~BufferTable() {
  for (auto& chunk : chunks_) delete[] chunk.load();
}

std::optional<BufferId> BufferTable::create() {
  if (!unused_.empty()) {
    const BufferId id = unused_.back();
    unused_.pop_back();
    return id;
  }
  if (end_ == kChunk * kChunks) return std::nullopt;
  if (end_ % kChunk == 0) {
    unused_.reserve(end_ + std::size_t{kChunk});  // so that destroy() allocates nothing
    chunks_[end_ / kChunk].store(new Buffer[kChunk], std::memory_order_release);
  }
  return BufferId{end_++};
}

void BufferTable::destroy(BufferId id) noexcept {
  Buffer& buffer = (*this)[id];
  // base and size may be read by find() at this moment: they keep their values.
  buffer.uses = buffer.waited = buffer.last_use = 0;
  buffer.ready = nullptr;
  buffer.pins = 0;
  buffer.footprint = Bytes{};
  buffer.place = Place::kOut;
  buffer.want = Want::kNobody;
  buffer.told_in = false;
  buffer.live = false;
  buffer.fresh = true;
  buffer.dirty = buffer.pinned_forever = buffer.page_is_untracked = false;
  buffer.may_exceed_limit = false;
  buffer.fetch_status = Status::kOk;
  buffer.evict_ticket = buffer.evict_failed = 0;
  ++buffer.generation;
  buffer.page.reset();
  buffer.host = HostCopy{};
  buffer.freed = nullptr;
  buffer.freed_on = kNoSlot;
  unused_.push_back(id);
}

}  // namespace superpipe
