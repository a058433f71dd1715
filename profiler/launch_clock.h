// When a launch happens and whether it waits, for about the price of one reading of the clock.
#pragma once

#include <chrono>
#include <cstdint>

#include "profiler/tick_clock.h"
#include "profiler/trace_event.h"
#include "profiler/trace_recorder.h"

namespace superpipe {

/// Times one launch, or another call of the hot path, for a trace. `Time` has the functions of
/// ProcessorTime.
///
/// The time is taken at the beginning, by a TickClock, and again only behind a part that took long,
/// as the counter tells. Where the counter stands still in a deep sleep of the processor, or the
/// thread comes to a processor whose counter is behind by just as much as it waited, a wait is not
/// recorded. One thread's.
template <typename Time>
class BasicLaunchClock {
 public:
  using TimePoint = TraceRecorder::TimePoint;
  /// What takes fewer ticks is no reason to take the time again, so that times are as much too
  /// early at most, and a wait may seem longer by that. In TraceWait::kLeast there are more.
  static constexpr std::uint64_t kMostTicks = 8192;

  /// Begins now. `trace` must outlive the clock; null: nothing is timed.
  explicit BasicLaunchClock(TraceRecorder* trace) noexcept : trace_(trace) {
    if (trace_ == nullptr) return;
    place_ = trace_->place_of_thread();
    ticks_ = Time::ticks();
    now_ = tick_clock_.at(ticks_);
  }

  /// When the part that is next begins, and no earlier than what this thread has recorded since the
  /// time was taken.
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
    ticks_ = Time::ticks();
    now_ = tick_clock_.read();
  }

  [[gnu::noinline]] void tell() noexcept {
    const TimePoint begin = now_;
    read();
    trace_->wait(TraceWait::kLaunch, begin, now_);
    place_ = trace_->place_of_thread();
  }

  [[gnu::tls_model("initial-exec")]] static inline thread_local constinit BasicTickClock<Time>
      tick_clock_;

  TraceRecorder* const trace_;
  std::uint64_t place_ = 0;
  TimePoint now_;
  std::uint64_t ticks_ = 0;
};

using LaunchClock = BasicLaunchClock<ProcessorTime>;

}  // namespace superpipe
