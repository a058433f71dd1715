// How long a test waits for what has to happen, before it fails instead of hanging.
#pragma once

#include <chrono>

namespace superpipe::testing {

/// Longer than a test that passes ever waits, on the slowest machine and under a sanitizer: that it
/// passes is never a matter of this time, only how soon a test that fails says so.
inline constexpr std::chrono::seconds kHangLimit{300};

/// Ends a loop that waits for what has to happen.
class HangGuard {
 public:
  /// Whether so much time has passed that it will not happen any more.
  [[nodiscard]] bool is_over() const { return Clock::now() >= end_; }

 private:
  using Clock = std::chrono::steady_clock;
  const Clock::time_point end_ = Clock::now() + kHangLimit;
};

}  // namespace superpipe::testing
