// Whether the process has streams that the legacy stream joins.
#pragma once

#include <atomic>

namespace superpipe {

/// Remembers whether the program has made a blocking stream, or has used a per-thread default
/// stream. All that is submitted to the legacy stream comes behind the work of those, and before
/// what they get from then on. Thread-safe.
class JoiningStreams {
 public:
  /// The program is about to make or to use such a stream.
  static void note() noexcept {
    if (!any()) any_.store(true, std::memory_order_relaxed);
  }
  /// Whether it ever was. One load.
  [[nodiscard]] static bool any() noexcept { return any_.load(std::memory_order_relaxed); }
  /// As when the process began. For tests.
  static void forget() noexcept { any_.store(false, std::memory_order_relaxed); }

 private:
  static inline constinit std::atomic<bool> any_{false};
};

}  // namespace superpipe
