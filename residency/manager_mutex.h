// The manager's mutex, which operations open in their midst to call the device.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "residency/thread_annotations.h"

namespace superpipe {

/// Stands for the mutex of the manager at hand in clang's thread-safety analysis. The parts of a
/// manager reach its mutex through references of their own, which the analysis cannot tell to be
/// the same; one name for all of them lets it check that each access holds it.
class CAPABILITY("mutex") ManagerLockName {};
// NOLINTNEXTLINE(readability-identifier-naming): it reads as the mutex that it stands for.
inline constexpr ManagerLockName manager_lock;

/// Guards the state of one manager. Not held across calls of the device (I5): see Unlocked. Only
/// shut_down() makes its last calls under it, when no other operation is inside.
class ManagerMutex {
 public:
  void lock() ACQUIRE(manager_lock) NO_THREAD_SAFETY_ANALYSIS { mutex_.lock(); }
  void unlock() RELEASE(manager_lock) NO_THREAD_SAFETY_ANALYSIS { mutex_.unlock(); }

  /// Opens the mutex until `condition` is notified, at most for `time`. May return early.
  void wait_for(std::condition_variable& condition, std::chrono::nanoseconds time)
      REQUIRES(manager_lock) {
    std::unique_lock<std::mutex> lock(mutex_, std::adopt_lock);
    condition.wait_for(lock, time);
    lock.release();
  }

  /// Operations that have the mutex open at this moment and will go on under it.
  [[nodiscard]] int open_sections() const REQUIRES(manager_lock) { return open_sections_; }

 private:
  friend class Unlocked;
  std::mutex mutex_;
  int open_sections_ = 0;  // guarded by the mutex
};

/// Holds the mutex for a scope.
class SCOPED_CAPABILITY ManagerLock {
 public:
  explicit ManagerLock(ManagerMutex& mutex) ACQUIRE(manager_lock) : mutex_(mutex) { mutex_.lock(); }
  ~ManagerLock() RELEASE() { mutex_.unlock(); }
  ManagerLock(const ManagerLock&) = delete;
  ManagerLock& operator=(const ManagerLock&) = delete;

 private:
  ManagerMutex& mutex_;
};

/// Opens the mutex for a scope, to call the device. Whatever was read under it before may have
/// changed afterwards.
class SCOPED_CAPABILITY Unlocked {
 public:
  explicit Unlocked(ManagerMutex& mutex) RELEASE(manager_lock) NO_THREAD_SAFETY_ANALYSIS
      : mutex_(mutex) {
    ++mutex_.open_sections_;
    mutex_.unlock();
  }
  ~Unlocked() RELEASE() NO_THREAD_SAFETY_ANALYSIS {
    mutex_.lock();
    --mutex_.open_sections_;
  }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  ManagerMutex& mutex_;
};

}  // namespace superpipe
