#include "tools/simgpu/driver/device/timeline.h"

#include <sys/prctl.h>
#include <time.h>

namespace simgpu {
namespace {

// A sleeping thread wakes tens of microseconds late even with a timer slack of 1 ns: it sleeps so
// much less, and spins for what is left.
constexpr Nanoseconds kSpin = 40'000;

thread_local bool has_precise_timer = false;

void sleep_without_spinning(Nanoseconds deadline) noexcept {
  timespec time{};
  time.tv_sec = deadline / 1'000'000'000;
  time.tv_nsec = deadline % 1'000'000'000;
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, nullptr) == EINTR) {
  }
}

void relax() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

Nanoseconds now_ns() noexcept {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * Nanoseconds{1'000'000'000} + time.tv_nsec;
}

void use_precise_timer() noexcept {
  prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
  has_precise_timer = true;
}

void sleep_until_about(Nanoseconds deadline) noexcept {
  if (deadline > now_ns()) sleep_without_spinning(deadline);
}

void sleep_until(Nanoseconds deadline) noexcept {
  if (deadline - now_ns() > kSpin) {
    if (has_precise_timer) {
      sleep_without_spinning(deadline - kSpin);
    } else {
      // A thread of the program: its own timer slack (50 us unless it chose another) is restored.
      const int slack = prctl(PR_GET_TIMERSLACK, 0UL, 0UL, 0UL, 0UL);
      prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
      sleep_without_spinning(deadline - kSpin);
      prctl(PR_SET_TIMERSLACK, slack > 0 ? static_cast<unsigned long>(slack) : 0UL, 0UL, 0UL, 0UL);
    }
  }
  while (now_ns() < deadline) relax();
}

void Completion::announce(Nanoseconds end) noexcept {
  announced_.store(end, std::memory_order_relaxed);
  state_.store(kAnnounced, std::memory_order_release);
  state_.notify_all();
}

void Completion::settle(Nanoseconds end) noexcept {
  end_ = end;
  state_.store(kSettled, std::memory_order_release);
  state_.notify_all();
}

Nanoseconds Completion::wait_settled() const noexcept {
  for (int state = state_.load(std::memory_order_acquire); state != kSettled;
       state = state_.load(std::memory_order_acquire)) {
    state_.wait(state, std::memory_order_acquire);
  }
  return end_;
}

void Completion::wait() const noexcept {
  if (state_.load(std::memory_order_acquire) == kPending) state_.wait(kPending);
  // Sleep through the modelled interval by our own clock: being woken at its end would come late.
  if (state_.load(std::memory_order_acquire) == kAnnounced) {
    sleep_until(announced_.load(std::memory_order_relaxed));
  }
  sleep_until(wait_settled());
}

}  // namespace simgpu
