// When a launch happens and whether it waits, for about the price of one reading of the clock.
#pragma once

#include <chrono>
#include <cstdint>

#include "profiler/trace_event.h"
#include "profiler/trace_recorder.h"

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace superpipe {

/// The clock of traces, and a counter that is cheaper to read: the processor's own takes a third of
/// the time. On other processors it is the clock once more.
///
/// The counter only has to tell that 20 us have passed. Where it stands still in a deep sleep of
/// the processor, or a thread comes to one whose counter is behind by just as much as it waited, a
/// wait is not recorded.
struct ProcessorTime {
  static std::chrono::steady_clock::time_point now() noexcept {
    return std::chrono::steady_clock::now();
  }
  /// Processors count 1 to 5 ticks in a nanosecond.
  static std::uint64_t ticks() noexcept {
#if defined(__x86_64__)
    return __rdtsc();
#else
    return static_cast<std::uint64_t>(now().time_since_epoch().count());
#endif
  }
};

/// Times one launch, or another call of the hot path, for a trace. `Time` has the functions of
/// ProcessorTime.
///
/// The clock is read at the beginning, and again only behind a part that took long, as the counter
/// tells; no time is derived from that. One thread's.
template <typename Time>
class BasicLaunchClock {
 public:
  using TimePoint = TraceRecorder::TimePoint;
  /// What takes fewer ticks is no reason to read the clock again, so that times are as much too
  /// early at most, and a wait may seem longer by that. In TraceWait::kLeast there are more.
  static constexpr std::uint64_t kMostTicks = 8192;

  /// Begins now. `trace` must outlive the clock; null: nothing is timed.
  explicit BasicLaunchClock(TraceRecorder* trace) noexcept : trace_(trace) {
    if (trace_ != nullptr) read();
  }

  /// When the part that is next begins, and no earlier than what this thread has recorded since the
  /// clock was read.
  [[nodiscard]] TimePoint now() noexcept {
    if (trace_ != nullptr && trace_->place_of_thread() != place_) [[unlikely]]
      read();
    return now_;
  }

  /// Calls `call`, a part of the launch that may wait, and tells the trace of a TraceWait if it
  /// took long. @return what `call` did.
  template <typename Call>
  auto wait(const Call& call) noexcept {
    const auto result = call();
    end_wait();
    return result;
  }
  /// The same for a part that ends now, and began when the last one ended.
  void end_wait() noexcept {
    // A counter that is behind makes the difference large, and the clock is read once more.
    if (trace_ != nullptr && Time::ticks() - ticks_ >= kMostTicks) [[unlikely]]
      tell();
  }

 private:
  void read() noexcept {
    place_ = trace_->place_of_thread();
    now_ = Time::now();
    ticks_ = Time::ticks();
  }

  [[gnu::noinline]] void tell() noexcept {
    const TimePoint begin = now_;
    read();
    trace_->wait(TraceWait::kLaunch, begin, now_);
    place_ = trace_->place_of_thread();
  }

  TraceRecorder* const trace_;
  std::uint64_t place_ = 0;
  TimePoint now_;
  std::uint64_t ticks_ = 0;
};

using LaunchClock = BasicLaunchClock<ProcessorTime>;

}  // namespace superpipe
