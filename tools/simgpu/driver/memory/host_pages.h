// Pages of cuMemCreate that lie on the host: how much of it they have, and which kernels use them.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

namespace simgpu {

/// What the process's pages on the host take together. They count against no device. Thread-safe.
class HostPages {
 public:
  static HostPages& instance();

  /// Takes `bytes` of the host's memory. @return false, and nothing taken, if they are more than
  /// SIMGPU_HOST_PAGE_LIMIT or the machine's memory leaves.
  bool take(std::uint64_t bytes);
  void give_back(std::uint64_t bytes);
  [[nodiscard]] std::uint64_t used() const { return used_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t peak() const { return peak_.load(std::memory_order_relaxed); }
  /// The most that there can be. Constant after cuInit.
  [[nodiscard]] static std::uint64_t limit();
  /// Whether there are any. One load: programs without such pages pay no more than this for them.
  [[nodiscard]] bool any() const { return used() != 0; }

  /// Says that a kernel uses such pages, for as long as the result lives.
  [[nodiscard]] std::shared_ptr<void> begin_use();
  /// Whether a kernel does.
  [[nodiscard]] bool in_use() const { return users_.load(std::memory_order_relaxed) != 0; }

 private:
  HostPages() = default;

  std::atomic<std::uint64_t> used_{0};
  std::atomic<std::uint64_t> peak_{0};
  std::atomic<int> users_{0};
};

}  // namespace simgpu
