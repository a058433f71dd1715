#include "tests/policy/piece_simulation.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace superpipe::testing {

BufferId PieceSimulation::allocate(Bytes bytes) {
  BufferId id{static_cast<std::uint32_t>(buffers_.size())};
  if (free_ids_.empty()) {
    buffers_.emplace_back();
  } else {
    id = free_ids_.back();
    free_ids_.pop_back();
  }
  const auto pieces = static_cast<std::uint32_t>(round_up(bytes, kPiece).count() / kPiece.count());
  buffers_[index_of(id)] = {.pieces = pieces, .there = 0, .bytes = bytes};
  policy_.on_allocate(id, bytes, pieces);
  return id;
}

BufferId PieceSimulation::make(Bytes bytes) {
  const BufferId id = allocate(bytes);
  const Buffer& buffer = buffers_[index_of(id)];
  while (buffer.there < buffer.pieces) {
    if (!find_room(0)) throw std::logic_error("no room for a buffer that is made");
    place(id);
  }
  return id;
}

void PieceSimulation::free(BufferId id) {
  there_ -= buffers_[index_of(id)].there;
  buffers_[index_of(id)] = {};
  policy_.on_free(id);
  free_ids_.push_back(id);
}

bool PieceSimulation::is_in_use(BufferId id) const {
  return std::ranges::find(running_, id) != running_.end() ||
         std::ranges::find(finishing_, id) != finishing_.end();
}

bool PieceSimulation::find_room(std::uint64_t before) {
  if (there_ < room_) return true;
  const auto victim = policy_.next_victim(before, [this](BufferId id) { return !is_in_use(id); });
  if (!victim) return false;
  --buffers_[index_of(*victim)].there;
  --there_;
  policy_.on_left(*victim);
  return true;
}

void PieceSimulation::place(BufferId id) {
  ++buffers_[index_of(id)].there;
  exceeded_ = exceeded_ || ++there_ > room_;
  policy_.on_brought(id);
}

void PieceSimulation::bring(BufferId id) {
  const Buffer& buffer = buffers_[index_of(id)];
  const Bytes piece = std::min(kPiece, buffer.bytes);
  place(id);
  brought_ += piece;
  link_free_ += link_.time_for(piece);
}

void PieceSimulation::bring_ahead(Seconds until) {
  while (link_free_ < until) {
    const auto target = policy_.next_target();
    if (!target || !find_room(target->next_use)) {
      link_free_ = until;
    } else {
      bring(target->id);
    }
  }
}

void PieceSimulation::launch(std::uint64_t kernel, const std::vector<BufferId>& buffers,
                             Seconds compute, std::uint8_t stream) {
  bring_ahead(begin_);
  finishing_ = std::exchange(running_, buffers);
  policy_.on_launch(KernelId{kernel}, buffers, stream);
  Seconds ready{};
  for (const BufferId id : buffers) {
    const Buffer& buffer = buffers_[index_of(id)];
    while (buffer.there < buffer.pieces) {
      if (!find_room(policy_.present())) throw std::logic_error("no room for a launch");
      bring(id);
      ready = link_free_;
    }
  }
  begin_ = std::max(end_, ready);
  end_ = begin_ + compute;
}

}  // namespace superpipe::testing
