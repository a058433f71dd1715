// A point of device work, and whether it is known to be complete.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <vector>

namespace superpipe {

/// Complete once the device has done all work up to a point. The code that asks the device sets
/// `complete`, which only ever goes from false to true.
struct Completion {
  std::atomic<bool> complete{false};

  [[nodiscard]] bool is_known() const { return complete.load(std::memory_order_acquire); }
};

using CompletionRef = std::shared_ptr<Completion>;

/// Whether `completion` is one of `completions`.
[[nodiscard]] inline bool contains(std::span<const CompletionRef> completions,
                                   const CompletionRef& completion) {
  for (const CompletionRef& each : completions) {
    if (each == completion) return true;
  }
  return false;
}

}  // namespace superpipe
