#include "residency/worker.h"

#include <algorithm>

#include "residency/tuning.h"

namespace superpipe {

Worker::Worker(const char* name, ManagerMutex& mutex, bool has_thread, WorkerClock* clock)
    : name_(name), mutex_(mutex), has_thread_(has_thread), clock_(clock) {}

bool Worker::wake() noexcept {
  if (!has_thread_ && clock_ != nullptr) clock_->wake();
  if (!has_thread_ || ended_) return true;
  if (!thread_.is_started()) return thread_.start(name_, [this] { main(); });
  work_.notify_one();
  return true;
}

void Worker::main() {
  const ManagerLock lock(mutex_);
  while (!ended_) {
    const auto rest = rest_after(rounds_->run());
    // A round opens the mutex: the end may have come in it, and is not told again.
    if (rest && !ended_) mutex_.wait_for(work_, *rest);
  }
}

// @return how long to rest after a round, unless woken; nullopt: not at all.
std::optional<std::chrono::nanoseconds> Worker::rest_after(bool worked) {
  const auto rest = next_rest_;
  next_rest_ = tuning::kWorkerShortestRest;
  is_pending_ = !worked && rounds_->is_pending();
  if (worked) return std::nullopt;
  if (!is_pending_) return rounds_->longest_rest();
  const auto longest =
      rounds_->is_awaited() ? tuning::kWorkerLongestWhileAwaited : tuning::kWorkerLongestRest;
  const auto length =
      std::clamp<std::chrono::nanoseconds>(rest, tuning::kWorkerShortestRest, longest);
  next_rest_ = length * 5 / 4;
  return length;
}

bool Worker::run_once() noexcept {
  if (clock_ != nullptr) clock_->begin_round();
  const bool worked = rounds_->run();
  if (clock_ != nullptr)
    clock_->end_round(rest_after(worked).value_or(std::chrono::nanoseconds{0}));
  return worked;
}

void Worker::end() noexcept {
  ended_ = true;
  // In the child of a fork no thread waits, and the notification itself could wait for threads that
  // waited in the parent.
  if (is_owner()) work_.notify_all();
}

}  // namespace superpipe
