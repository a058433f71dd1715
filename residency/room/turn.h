// The turn of one operation, from when it has it until it needs it no longer.
#pragma once

#include "residency/manager_mutex.h"
#include "residency/residency_core.h"

namespace superpipe {

/// Two operations that each hold pins and wait for the other's pages would wait for ever. So one at
/// a time may hold pins while it waits for room, in the order in which they asked: it has the turn.
///
/// On the stack of the operation, under the manager's mutex.
class Turn {
 public:
  explicit Turn(ResidencyCore& core) : core_(core) {}
  ~Turn() REQUIRES(manager_lock) { end(); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  /// Waits for the turn. Opens the mutex. REQUIRES: this has it not.
  /// @return false once `deadline` has passed.
  bool take(ResidencyCore::Clock::time_point deadline) noexcept REQUIRES(manager_lock);

  /// Lets the next operation have the turn, if this has it.
  void end() noexcept REQUIRES(manager_lock);

 private:
  ResidencyCore& core_;
  bool taken_ = false;
};

}  // namespace superpipe
