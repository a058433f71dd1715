#include "residency/pieces/buffer_table.h"

#include <algorithm>
#include <utility>

namespace superpipe {

void Buffer::cut(Bytes whole, Bytes bytes) {
  const std::uint64_t count = (whole.count() + bytes.count() - 1) / bytes.count();
  pieces.resize(count);
  footprint = whole;
  piece_size = bytes;
  missing = static_cast<std::uint32_t>(count);
  filling = moving = 0;
}

void Buffer::uncut() noexcept {
  pieces.clear();
  footprint = piece_size = Bytes{};
  missing = filling = moving = 0;
}

std::span<const Piece> Buffer::pieces_at(Bytes offset, Bytes bytes) const {
  const std::uint64_t first = std::min(offset.count() / piece_size.count(), pieces.size() - 1);
  const std::uint64_t end = offset.count() + std::max<std::uint64_t>(bytes.count(), 1);
  const std::uint64_t last = std::min((end - 1) / piece_size.count(), pieces.size() - 1);
  return std::span(pieces).subspan(first, last - first + 1);
}

void Buffer::set_state(std::uint32_t piece, PieceState state) noexcept {
  Piece& changed = pieces[piece];
  missing += (changed.is_in() ? 1U : 0U);
  moving -= (changed.is_moving() ? 1U : 0U);
  changed.state_ = state;
  missing -= (changed.is_in() ? 1U : 0U);
  moving += (changed.is_moving() ? 1U : 0U);
  if (changed.is_in()) changed.is_zero = false;
}

void Buffer::set_ready(std::uint32_t piece, EventRef ready) noexcept {
  EventRef& awaited = pieces[piece].ready;
  filling -= (awaited != nullptr ? 1U : 0U);
  filling += (ready != nullptr ? 1U : 0U);
  if (ready != nullptr) waited = 0;
  awaited = std::move(ready);
}

bool Buffer::has_pages() const {
  return std::ranges::any_of(
      pieces, [](const Piece& piece) REQUIRES(manager_lock) { return piece.has_page(); });
}

Bytes Buffer::bytes_in_place() const {
  Bytes bytes;
  for (std::uint32_t piece = 0; piece < pieces.size(); ++piece) {
    if (pieces[piece].is_in()) bytes += bytes_of(piece);
  }
  return bytes;
}

bool Buffer::is_untracked() const {
  return std::ranges::any_of(
      pieces, [](const Piece& piece) REQUIRES(manager_lock) { return piece.page_is_untracked; });
}

bool Buffer::has_arrived() noexcept {
  const auto is_filling = [](const Piece& piece)
                              REQUIRES(manager_lock) { return piece.is_filling(); };
  if (std::ranges::any_of(pieces, is_filling)) return false;
  for (std::uint32_t piece = 0; piece < pieces.size(); ++piece) set_ready(piece, nullptr);
  return true;
}

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
  chunks_[end_ / kChunk].load()[end_ % kChunk].rare = std::make_unique<RareUses>();
  return BufferId{end_++};
}

void BufferTable::destroy(BufferId id) noexcept {
  Buffer& buffer = (*this)[id];
  // base and size may be read by find() at this moment: they keep their values.
  buffer.uncut();
  buffer.uses = buffer.waited = buffer.last_use = 0;
  buffer.writes = buffer.known_write = 0;
  buffer.pins = buffer.evictions_requested = buffer.left_out = 0;
  *buffer.rare = RareUses{};
  buffer.stays_left_out = buffer.is_held_back = false;
  buffer.left_out_by = KernelId{};
  buffer.live = buffer.is_beginning = false;
  buffer.fresh = true;
  buffer.pinned_forever = buffer.stays = false;
  ++buffer.generation;
  buffer.host = HostCopy{};
  buffer.freed = nullptr;
  buffer.freed_on = kNoSlot;
  unused_.push_back(id);
}

}  // namespace superpipe
