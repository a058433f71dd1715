// Carries out what other processes ask of this one through its live segment.
#pragma once

#include <atomic>
#include <functional>
#include <memory>

#include "interposer/reports/run_progress.h"
#include "profiler/live_segment.h"
#include "residency/own_thread.h"
#include "residency/tuning.h"

namespace superpipe {

/// A thread that sleeps in the kernel until another process asks for a budget, or for figures.
///
/// So a request costs a launch nothing, and is carried out at once though no thread of superpipe
/// may run. After one for a budget it publishes the figures every few milliseconds until the pages
/// fit the limit, for what watches. While there is progress to show, it wakes once a second.
class BudgetRequests {
 public:
  /// What it does; called on its thread, without a lock.
  struct Actions {
    std::function<BudgetAnswer(Bytes budget)> set_budget;  ///< of the whole process
    std::function<LiveFigures()> figures;
  };

  /// Publishes the figures, and starts the thread. `progress`: null if none is to be shown. Throws
  /// std::system_error, std::bad_alloc.
  BudgetRequests(std::unique_ptr<LiveSegment> segment, Actions actions,
                 std::unique_ptr<RunProgress> progress = nullptr);
  /// As stop(). REQUIRES: no abandon() that returned false.
  ~BudgetRequests() { stop(); }
  BudgetRequests(const BudgetRequests&) = delete;
  BudgetRequests& operator=(const BudgetRequests&) = delete;

  /// No progress is shown from now on. Waits 0.1 s at most. Any thread, during stop() and after it.
  void end_progress() noexcept;
  /// Removes the segment. Waits for a request that is being carried out.
  void stop() noexcept;
  /// The same at process exit and in the child of a fork, where the thread may never end: waits for
  /// it `patience` at most, and in a child touches neither thread nor segment.
  /// @return whether the thread is gone, so that this may be destroyed.
  bool abandon(std::chrono::milliseconds patience = tuning::kThreadEndPatience) noexcept;

 private:
  void main();
  void serve(const LiveSegment::Request& request);

  std::unique_ptr<LiveSegment> segment_;
  const Actions actions_;
  const std::unique_ptr<RunProgress> progress_;
  std::atomic<bool> ended_{false};
  bool shows_progress_;   // of the thread
  bool watched_ = false;  // of the thread: a process may be waiting for the pages to fit
  OwnThread thread_;
};

}  // namespace superpipe
