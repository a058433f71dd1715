// Which devices may access the pieces that are mapped.
#pragma once

#include <chrono>

#include "residency/manager_mutex.h"
#include "residency/pieces/buffer_table.h"
#include "residency/residency_core.h"
#include "residency/result.h"

namespace superpipe {

/// Has pieces that were mapped for fewer devices accessible to all that may access buffers by now.
/// A part of the manager.
class PieceAccess {
 public:
  explicit PieceAccess(ResidencyCore& core) : core_(core) {}

  /// As ResidencyManager::renew_access().
  Status renew() EXCLUDES(manager_lock);

 private:
  Status renew(PieceId id, std::chrono::nanoseconds& patience) REQUIRES(manager_lock);
  bool wait_change(std::chrono::nanoseconds& patience) REQUIRES(manager_lock);

  ResidencyCore& core_;
};

}  // namespace superpipe
