// Changes the states of pieces.
#pragma once

#include "residency/manager_mutex.h"
#include "residency/pieces/buffer_table.h"
#include "residency/pieces/page_pool.h"
#include "residency/pieces/piece_state.h"

namespace superpipe {

/// What depends on the states of pieces.
class PieceListener {
 public:
  PieceListener() = default;
  PieceListener(const PieceListener&) = delete;
  PieceListener& operator=(const PieceListener&) = delete;

  /// `id` was in the state `from`, and is in its new one.
  virtual void on_piece_state(PieceId id, PieceState from) noexcept REQUIRES(manager_lock) = 0;

 protected:
  ~PieceListener() = default;
};

/// Changes the states of pieces as kPieceTransitions says, and tells the listener of each change,
/// so that no caller has to. A change that the table does not have ends the process: what follows
/// from it might be stale content.
///
/// Under the manager's mutex. Opens it never.
class PieceStates {
 public:
  /// Both must outlive it.
  PieceStates(BufferTable& buffers, PieceListener& listener)
      : buffers_(buffers), listener_(listener) {}

  /// REQUIRES: both states have a page, or neither.
  void enter(PieceId id, PieceState state) noexcept REQUIRES(manager_lock);
  /// The piece gets a page. REQUIRES: it has none, and `state` has one.
  void enter(PieceId id, PieceState state, Page page) noexcept REQUIRES(manager_lock);
  /// The piece is out. @return the page that it had. REQUIRES: it has one.
  [[nodiscard]] Page leave(PieceId id) noexcept REQUIRES(manager_lock);

 private:
  void change(PieceId id, PieceState state) noexcept REQUIRES(manager_lock);

  BufferTable& buffers_;
  PieceListener& listener_;
};

}  // namespace superpipe
