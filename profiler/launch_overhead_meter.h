// How much time superpipe adds to a kernel launch, on samples.
#pragma once

#include <chrono>
#include <cstdint>

#include "profiler/latency_histogram.h"

namespace superpipe {

/// Collects the time that superpipe's part of a launch takes. Thread-safe, lock-free.
///
/// Use: ask is_sampled() once for each launch; where it says so, read the clock around superpipe's
/// own part of the launch and add() the time, unless the launch waited for content to come: that is
/// stall, and not overhead.
class LaunchOverheadMeter {
 public:
  /// One launch in so many is timed: four clock readings on each would cost as much as the hook.
  static constexpr std::uint32_t kOneIn = 64;
  /// Whether the calling thread's launch is one to be timed. Counts the launch.
  [[nodiscard]] static bool is_sampled() noexcept { return (launches_++ % kOneIn) == kOneIn - 1; }

  /// Adds a sampled launch's time, as LatencyHistogram::add().
  void add(std::chrono::nanoseconds time) noexcept { times_.add(time); }

  /// LatencyHistogram::quantile() of the samples, in ns.
  [[nodiscard]] double quantile(double share) const noexcept { return times_.quantile(share); }

 private:
  static inline constinit thread_local std::uint32_t launches_
      __attribute__((tls_model("initial-exec"))) = 0;
  LatencyHistogram times_;
};

}  // namespace superpipe
