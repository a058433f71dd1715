// The kernels that were launched last, for the report of a fault.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "policy/units.h"

namespace superpipe {

/// Remembers some launches. Threads that launch at the same moment may lose one another's: a launch
/// has no time to spare for that. Any thread.
class RecentLaunches {
 public:
  static constexpr std::size_t kKept = 16;

  /// Part of the launch path: three moves and an addition.
  void note(KernelId kernel) noexcept {
    const std::uint64_t number = next_.load(std::memory_order_relaxed);
    next_.store(number + 1, std::memory_order_relaxed);
    kernels_[number % kKept].store(kernel, std::memory_order_relaxed);
  }

  /// The kernels launched last, each once, the latest first. Throws std::bad_alloc.
  [[nodiscard]] std::vector<KernelId> kernels() const {
    std::vector<KernelId> found;
    const std::uint64_t next = next_.load(std::memory_order_relaxed);
    for (std::uint64_t back = 1; back <= std::min<std::uint64_t>(next, kKept); ++back) {
      const KernelId kernel = kernels_[(next - back) % kKept].load(std::memory_order_relaxed);
      if (std::find(found.begin(), found.end(), kernel) == found.end()) found.push_back(kernel);
    }
    return found;
  }

 private:
  std::atomic<std::uint64_t> next_{0};
  std::array<std::atomic<KernelId>, kKept> kernels_{};
};

}  // namespace superpipe
