// How the threads inside a manager wait for each other, and learn that it ends.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>

#include "residency/manager_mutex.h"
#include "residency/thread_annotations.h"

namespace superpipe {

/// What one thread changes under the mutex, another may wait for: the first announces it. Every
/// wait ends with the manager.
///
/// Under the manager's mutex, except for `abandoned`.
struct ManagerWaits {
  explicit ManagerWaits(ManagerMutex& manager_mutex) : mutex(manager_mutex) {}

  /// Whether the manager has ended or is being given up: nothing is to be waited for any more.
  [[nodiscard]] bool are_over() const REQUIRES(manager_lock) { return stopped || abandoned; }

  /// Something changed that others may be waiting for.
  void announce() REQUIRES(manager_lock) {
    ++changes;
    change.notify_all();
  }
  /// The same for changes that only matter to threads that are waiting already.
  void announce_to_waiters() REQUIRES(manager_lock) {
    if (waiters > 0) announce();
  }
  /// Sleeps until another thread announces a change, at most `slice`. Opens the mutex.
  void sleep(std::chrono::nanoseconds slice) noexcept REQUIRES(manager_lock) {
    ++waiters;
    mutex.wait_for(change, slice);
    --waiters;
  }

  ManagerMutex& mutex;
  std::condition_variable change;
  std::uint32_t waiters GUARDED_BY(manager_lock) = 0;
  std::uint64_t changes GUARDED_BY(manager_lock) = 0;  ///< announced so far
  bool stopped GUARDED_BY(manager_lock) = false;
  std::atomic<bool> abandoned{false};
};

}  // namespace superpipe
