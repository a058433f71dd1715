// Virtual time for two threads of a program that really has one: the launching thread and the
// worker.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <functional>

#include "residency/worker.h"

namespace superpipe::virtual_time {

/// A moment or a span of virtual time. Moments count from the clock's beginning.
using Time = std::chrono::nanoseconds;

/// The threads that virtual time is kept for.
enum class Thread : std::size_t { kProgram, kWorker, kStocker };

/// What threads cost each other and the clock.
struct ThreadCosts {
  Time round{std::chrono::microseconds{1}};  ///< of each round, besides its calls of the device
  Time wake{std::chrono::microseconds{5}};   ///< from a notification until the thread runs
  /// The longest that a thread which waits for the worker sleeps without looking again, as
  /// ResidencyCore::wait_change() does.
  Time longest_sleep{std::chrono::milliseconds{10}};
};

/// Keeps one time for each thread, and the times at which the next rounds of the worker and of the
/// stocker begin.
///
/// One real thread runs all in turns. Whatever costs time is charged to the thread whose turn it
/// is. A round runs whole, at the time at which it begins; so what it changes is seen by the
/// program at that time already, though the worker's clock says when the round was over. Code that
/// must not profit from that compares with that clock (VirtualDevice::launch does).
///
/// Time goes on only through charge(), advance_to() and rounds, and never backwards for a thread.
/// Not thread-safe.
class VirtualClock : public WorkerClock {
 public:
  explicit VirtualClock(const ThreadCosts& costs = {}) : costs_(costs) {}

  [[nodiscard]] Thread running() const { return running_; }
  /// The time of the thread whose turn it is.
  [[nodiscard]] Time now() const { return time(running_); }
  [[nodiscard]] Time time(Thread thread) const { return times_[static_cast<std::size_t>(thread)]; }
  /// now() as ResidencyOptions::now tells it.
  [[nodiscard]] std::chrono::steady_clock::time_point time_point() const;

  /// The running thread is busy for `cost`. REQUIRES: cost >= 0.
  void charge(Time cost);
  /// The running thread waits until `moment`, which may have passed.
  void advance_to(Time moment);

  /// Runs by `run_round` all rounds of the worker that begin at `until` or before, each at its
  /// time, and by `run_stocker` those of the stocker, if that is ever woken. Each must run exactly
  /// one (ResidencyManager::run_worker_once, run_stocker_once).
  void run_rounds(Time until, const std::function<void()>& run_round,
                  const std::function<void()>& run_stocker = {});
  /// The program's thread is about to call the manager: a wait that the call comes to begins by
  /// waking the worker, unless that looks soon by itself (Worker::wake_unless_pending()).
  void begin_call() { slept_through_ = waited_in_call_ = false; }
  /// Whether the program has waited for a round since begin_call().
  [[nodiscard]] bool waited_in_call() const { return waited_in_call_; }
  /// When the next round begins unless the worker is woken sooner.
  [[nodiscard]] Time next_round() const { return next_round_; }

  /// The side of the thread that pins host memory ahead of need. Nothing waits for its rounds, so
  /// they run in run_rounds() alone.
  class Stocker : public WorkerClock {
   public:
    explicit Stocker(VirtualClock& clock) : clock_(clock) {}
    void wake() noexcept override;
    void begin_round() noexcept override;
    void end_round(std::chrono::nanoseconds rest) noexcept override;
    /// When the next round begins unless it is woken sooner.
    [[nodiscard]] Time next_round() const { return next_round_; }

   private:
    VirtualClock& clock_;
    Time next_round_ = Time::max();
  };
  [[nodiscard]] Stocker& stocker() { return stocker_; }

  /// @name The worker's side. Rounds outside run_rounds() are those of a wait of the program: it
  /// sleeps meanwhile, and is awake when one of them changed something.
  /// @{
  void wake() noexcept override;
  void begin_round() noexcept override;
  void end_round(std::chrono::nanoseconds rest) noexcept override;
  /// @}

 private:
  Time& own_time() { return times_[static_cast<std::size_t>(running_)]; }

  const ThreadCosts costs_;
  std::array<Time, 3> times_{};
  Thread running_ = Thread::kProgram;
  Time next_round_ = Time::max();  ///< the worker's thread is not started before it is woken
  Stocker stocker_{*this};
  bool is_due_ = false;         ///< run_rounds() runs the next round
  bool looks_soon_ = false;     ///< the worker's last rest was that of one which has work pending
  bool slept_through_ = false;  ///< the last round of a wait changed nothing
  bool waited_in_call_ = false;
};

}  // namespace superpipe::virtual_time
