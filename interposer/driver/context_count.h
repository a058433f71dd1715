// How many contexts the program has: with one, a stream need not be asked for its context.
#pragma once

#include <atomic>

namespace superpipe {

/// Counts the program's contexts, primary ones included. Thread-safe, lock-free. Counting one too
/// many is safe: each stream is then asked for its context.
class ContextCount {
 public:
  static void add() noexcept { count_.fetch_add(1, std::memory_order_relaxed); }
  static void remove() noexcept { count_.fetch_sub(1, std::memory_order_relaxed); }
  /// Whether there are several contexts. One load.
  [[nodiscard]] static bool has_several() noexcept {
    return count_.load(std::memory_order_relaxed) > 1;
  }

 private:
  static inline constinit std::atomic<int> count_{0};
};

}  // namespace superpipe
