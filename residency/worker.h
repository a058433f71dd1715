// The thread that moves content, and where it rests.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <optional>

#include "residency/manager_mutex.h"
#include "residency/own_thread.h"

namespace superpipe {

/// The work that a Worker does, in rounds that wait for no work of the program.
class WorkerRounds {
 public:
  virtual ~WorkerRounds() = default;
  /// Does what can be done at once. May open the mutex. @return whether anything was done.
  virtual bool run() noexcept REQUIRES(manager_lock) = 0;
  /// Whether there is work that waits for events, so that another round is worthwhile soon.
  [[nodiscard]] virtual bool is_pending() const REQUIRES(manager_lock) = 0;
  /// Whether threads of the program wait for that work, so that events are asked for more often.
  [[nodiscard]] virtual bool is_awaited() const REQUIRES(manager_lock) = 0;
  /// How long the worker may rest when nothing is pending.
  [[nodiscard]] virtual std::chrono::nanoseconds longest_rest() const REQUIRES(manager_lock) = 0;
};

/// Keeps the time of a worker that has no thread: it learns what a thread would have done when.
///
/// For simulations whose time does not go by itself. All functions are called under the manager's
/// mutex, so they may not come back to the manager.
class WorkerClock {
 public:
  virtual ~WorkerClock() = default;
  /// There is work: a thread that rests would begin a round now.
  virtual void wake() noexcept = 0;
  /// A round begins. It runs on the stack of the thread that waits for the worker or asked for the
  /// round, but its time is the worker's.
  virtual void begin_round() noexcept = 0;
  /// The round has ended. A thread would rest for `rest` unless it is woken; zero: it would not.
  virtual void end_round(std::chrono::nanoseconds rest) noexcept = 0;
};

/// Runs rounds on a thread of its own, started when first needed, or, without a thread, on the
/// threads that wait.
class Worker {
 public:
  /// `name`: the thread's (OwnThread::start()). `has_thread`: false for deterministic tests.
  /// `clock`: told of rounds where there is no thread, or null. `mutex` and `clock` must outlive
  /// this.
  Worker(const char* name, ManagerMutex& mutex, bool has_thread, WorkerClock* clock = nullptr);
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// Tells whose rounds they are, before anything else; `rounds` must outlive the thread.
  void attach(WorkerRounds& rounds) { rounds_ = &rounds; }

  [[nodiscard]] bool has_thread() const { return has_thread_; }

  /// Has a round run soon; starts the thread if need be.
  /// @return false if there is no thread and none can be started now: the next call tries again.
  bool wake() noexcept REQUIRES(manager_lock);

  /// Has a round run soon, for a thread that waits for what rounds do and has nothing new for them.
  /// It wakes only a worker that would not look soon by itself: each round tells the threads that
  /// wait, and if they woke the worker in turn, the two would wake each other without end.
  /// @return as wake().
  bool wake_unless_pending() noexcept REQUIRES(manager_lock) { return is_pending_ || wake(); }

  /// Runs one round on the calling thread. REQUIRES: has_thread() is false.
  bool run_once() noexcept REQUIRES(manager_lock);

  /// No round begins any more, and the thread cannot be started. Waits for nothing. To be called
  /// under the mutex if the thread will be joined: else it may rest once more before it ends.
  void end() noexcept;
  /// Whether this process, and not a fork's child, has the thread.
  [[nodiscard]] bool is_owner() const noexcept { return thread_.is_owner(); }
  /// Waits for the end of the thread. REQUIRES: end(), and that the mutex is not held.
  void join() { thread_.join(); }

  /// Gives the thread up at process exit or in the child of a fork, after end(): it may be inside
  /// the driver, which may be on its way out itself, so it is not waited for longer than 0.2 s.
  /// Takes no lock. @return whether the thread has ended, so that what it uses may go.
  bool abandon() noexcept { return thread_.abandon(); }

 private:
  void main();
  std::optional<std::chrono::nanoseconds> rest_after(bool worked) REQUIRES(manager_lock);

  const char* const name_;
  ManagerMutex& mutex_;
  const bool has_thread_;
  WorkerClock* const clock_;
  WorkerRounds* rounds_ = nullptr;
  std::condition_variable work_;
  OwnThread thread_;
  /// How long the worker rests next if all it has is events to ask for.
  std::chrono::nanoseconds next_rest_ GUARDED_BY(manager_lock){0};
  /// Whether it rests no longer than that.
  bool is_pending_ GUARDED_BY(manager_lock) = false;
  std::atomic<bool> ended_{false};
};

}  // namespace superpipe
