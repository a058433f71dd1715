// Buffers that launches were begun without, until those have completed.
#pragma once

#include <span>
#include <vector>

#include "policy/units.h"
#include "residency/manager_mutex.h"
#include "residency/residency_core.h"
#include "residency/streams/event_pool.h"

namespace superpipe {

/// Keeps out what launches were begun without (UseTracker), as long as one of them may run.
///
/// A kernel that uses such a buffer all the same shall fault: it may neither read a page whose
/// content is still arriving nor what another buffer has at the address. So until the launch has
/// completed, nothing of the buffer comes in, policy wants nothing of it, and if it is freed,
/// nothing else gets its address and pages. Where nothing marks the end of a launch, that never
/// ends.
///
/// A part of the manager, under its mutex.
class LeftOutBuffers {
 public:
  explicit LeftOutBuffers(ResidencyCore& core) : core_(core) {}

  /// A launch is about to be begun without the buffer. What moves at this moment still may, and may
  /// have to be waited for.
  void begin(BufferId id) noexcept REQUIRES(manager_lock);
  /// Makes room for what end() notes of these buffers, which `kernel` is launched without; forgets
  /// launches that have completed. Opens the mutex. Throws std::bad_alloc.
  void prepare_end(std::span<const BufferId> ids, KernelId kernel) REQUIRES(manager_lock);
  /// The launch was `submitted`, and `end` lies behind it (null: nothing marks its end), or it came
  /// to nothing. REQUIRES: begin(); prepare_end(), if it was submitted.
  void end(BufferId id, bool submitted, const EventRef& end) noexcept REQUIRES(manager_lock);

  /// Whether the launches that were begun without a buffer have all completed, so that it may come
  /// in. Asks the device about the oldest of them, until one has not completed. Opens the mutex.
  bool may_return(BufferId id) noexcept REQUIRES(manager_lock);
  /// Whether a buffer that is about to be freed has to be held back until it may return. If so it
  /// is: settle() then caches or forgets it. REQUIRES: no launch is between begin() and end().
  bool hold_back(BufferId id) noexcept REQUIRES(manager_lock);

  /// Finds out which buffers may return, and puts those away that were held back. Asks the device
  /// once about each launch that has not completed. Opens the mutex. For the worker.
  /// @return whether there was any.
  bool settle() noexcept REQUIRES(manager_lock);
  /// Whether any may return later.
  [[nodiscard]] bool is_pending() const REQUIRES(manager_lock) { return !buffers_.empty(); }
  /// Forgets all, without asking the device.
  void clear() noexcept REQUIRES(manager_lock);

 private:
  ResidencyCore& core_;
  /// Each once; those that may return already are in it until settle() sees them.
  std::vector<BufferId> buffers_ GUARDED_BY(manager_lock);
};

}  // namespace superpipe
