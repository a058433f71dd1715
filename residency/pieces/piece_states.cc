#include "residency/pieces/piece_states.h"

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <utility>

namespace superpipe {

namespace {

[[noreturn]] void end_process(PieceState from, PieceState to) {
  (void)std::fprintf(stderr, "superpipe: a defect: a piece that is %s cannot become %s\n",
                     facts_of(from).name, facts_of(to).name);
  std::abort();
}

}  // namespace

void PieceStates::change(PieceId id, PieceState state) noexcept {
  Buffer& buffer = buffers_[id.buffer];
  const PieceState from = buffer.pieces[id.index].state();
  if (!may_follow(from, state)) end_process(from, state);
  buffer.set_state(id.index, state);
  listener_.on_piece_state(id, from);
}

void PieceStates::enter(PieceId id, PieceState state) noexcept {
  const PieceState from = buffers_[id.buffer].pieces[id.index].state();
  if (facts_of(from).has_page != facts_of(state).has_page) end_process(from, state);
  change(id, state);
}

void PieceStates::enter(PieceId id, PieceState state, Page page) noexcept {
  Piece& piece = buffers_[id.buffer].pieces[id.index];
  if (piece.has_page() || !facts_of(state).has_page) end_process(piece.state(), state);
  piece.page_ = std::move(page);
  change(id, state);
}

Page PieceStates::leave(PieceId id) noexcept {
  Piece& piece = buffers_[id.buffer].pieces[id.index];
  if (!piece.has_page()) end_process(piece.state(), PieceState::kOut);
  Page page = *std::exchange(piece.page_, std::nullopt);
  change(id, PieceState::kOut);
  return page;
}

}  // namespace superpipe
