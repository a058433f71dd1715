// How many stream captures are under way, so that launches outside of them need not ask.
#pragma once

#include <atomic>

namespace superpipe {

/// Counts captures between the program's begin and end calls. A capture spreads to other streams
/// through events, so while any is under way each stream has to be asked for.
class CaptureCount {
 public:
  static void begin() noexcept { count_.fetch_add(1, std::memory_order_relaxed); }
  static void end() noexcept {
    int count = count_.load(std::memory_order_relaxed);
    while (count > 0 && !count_.compare_exchange_weak(count, count - 1)) {
    }
  }
  [[nodiscard]] static bool any() noexcept { return count_.load(std::memory_order_relaxed) > 0; }

 private:
  static inline constinit std::atomic<int> count_{0};
};

}  // namespace superpipe
