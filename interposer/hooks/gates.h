// Whether the program ever had a stream wait for something that is not work of the device.
#pragma once

#include <atomic>

namespace superpipe {

/// Remembers calls by which work of a stream comes to wait for the program, or for another one:
/// host functions, waits for a value or a semaphore, events of other processes. What is behind such
/// a call may be made ready by the program long after it was submitted. Thread-safe.
class Gates {
 public:
  /// The program is about to make such a call, or to give a graph such a node.
  static void note() noexcept { any_.store(true, std::memory_order_relaxed); }
  /// Whether it ever did. One load.
  [[nodiscard]] static bool any() noexcept { return any_.load(std::memory_order_relaxed); }

 private:
  static inline constinit std::atomic<bool> any_{false};
};

}  // namespace superpipe
