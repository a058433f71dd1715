#include "bench/virtual_time/virtual_clock.h"

#include <algorithm>
#include <cassert>

namespace superpipe::bench {

std::chrono::steady_clock::time_point VirtualClock::time_point() const {
  // Not at the epoch of the clock, which residency takes for "long ago" in places.
  return std::chrono::steady_clock::time_point(std::chrono::hours{1} + now());
}

void VirtualClock::charge(Time cost) {
  assert(cost >= Time{0});
  own_time() += cost;
}

void VirtualClock::advance_to(Time moment) { own_time() = std::max(now(), moment); }

void VirtualClock::run_rounds(Time until, const std::function<void()>& run_round) {
  while (next_round_ <= until) {
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

void VirtualClock::begin_round() noexcept {
  if (!is_due_) {
    if (!slept_through_) wake();
    next_round_ = std::min(next_round_, std::max(time(Thread::kWorker),
                                                 time(Thread::kProgram) + costs_.longest_sleep));
  }
  running_ = Thread::kWorker;
  advance_to(next_round_);
  charge(costs_.round);
}

void VirtualClock::end_round(std::chrono::nanoseconds rest) noexcept {
  next_round_ = now() + rest;
  const Time ended = now();
  running_ = Thread::kProgram;
  if (is_due_) return;
  waited_in_call_ = true;
  slept_through_ = rest > Time{0};
  advance_to(ended);
}

}  // namespace superpipe::bench
