#include "residency/virtual_time/virtual_clock.h"

#include <algorithm>
#include <cassert>

#include "residency/tuning.h"

namespace superpipe::virtual_time {

std::chrono::steady_clock::time_point VirtualClock::time_point() const {
  // Not at the epoch of the clock, which residency takes for "long ago" in places.
  return std::chrono::steady_clock::time_point(std::chrono::hours{1} + now());
}

void VirtualClock::charge(Time cost) {
  assert(cost >= Time{0});
  own_time() += cost;
}

void VirtualClock::advance_to(Time moment) { own_time() = std::max(now(), moment); }

void VirtualClock::run_rounds(Time until, const std::function<void()>& run_round,
                              const std::function<void()>& run_stocker) {
  while (std::min(next_round_, stocker_.next_round()) <= until) {
    if (stocker_.next_round() < next_round_) {
      run_stocker();
      continue;
    }
    is_due_ = true;
    run_round();
    is_due_ = false;
  }
}

void VirtualClock::wake() noexcept {
  // The worker looks for more work at the end of its round, and needs not be woken for it.
  if (running_ == Thread::kWorker) return;
  const Time awake = time(Thread::kProgram) + costs_.wake;
  next_round_ = std::min(next_round_, std::max(time(Thread::kWorker), awake));
}

void VirtualClock::Stocker::wake() noexcept {
  // It looks for more work at the end of its round.
  if (clock_.running_ == Thread::kStocker) return;
  const Time awake = clock_.now() + clock_.costs_.wake;
  next_round_ = std::min(next_round_, std::max(clock_.time(Thread::kStocker), awake));
}

void VirtualClock::Stocker::begin_round() noexcept {
  clock_.running_ = Thread::kStocker;
  clock_.advance_to(next_round_);
  clock_.charge(clock_.costs_.round);
}

void VirtualClock::Stocker::end_round(std::chrono::nanoseconds rest) noexcept {
  next_round_ = clock_.now() + rest;
  clock_.running_ = Thread::kProgram;
}

void VirtualClock::begin_round() noexcept {
  if (!is_due_) {
    if (!slept_through_ && !looks_soon_) wake();
    next_round_ = std::min(next_round_, std::max(time(Thread::kWorker),
                                                 time(Thread::kProgram) + costs_.longest_sleep));
  }
  running_ = Thread::kWorker;
  advance_to(next_round_);
  charge(costs_.round);
}

void VirtualClock::end_round(std::chrono::nanoseconds rest) noexcept {
  next_round_ = now() + rest;
  looks_soon_ = rest <= tuning::kWorkerLongestRest;
  const Time ended = now();
  running_ = Thread::kProgram;
  if (is_due_) return;
  waited_in_call_ = true;
  slept_through_ = rest > Time{0};
  advance_to(ended);
}

}  // namespace superpipe::virtual_time
