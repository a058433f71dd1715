// Whether the program ever had a stream wait for something that is not work of the device.
#pragma once

#include <atomic>
#include <chrono>
#include <utility>

namespace superpipe {

/// Remembers calls by which work of a stream comes to wait for the program, or for another one:
/// host functions, waits for a value or a semaphore, events of other processes. What is behind such
/// a call may be made ready by the program long after it was submitted. Thread-safe.
class Gates {
 public:
  /// The program is about to make such a call, or to give a graph such a node. The first one, and
  /// those of other threads meanwhile, wait
  /// for the host functions of ours that are on streams (HostFunctionPermit), kLongestWait at most:
  /// they may be behind work that waits for what the program does next.
  static void note() noexcept {
    if (!any_.exchange(true) || is_draining_.load()) drain();
  }
  /// Whether it ever did. One load.
  [[nodiscard]] static bool any() noexcept { return any_.load(std::memory_order_relaxed); }

  /// As when the process began. For tests.
  static void forget() noexcept { any_.store(false); }

  static constexpr std::chrono::seconds kLongestWait{2};

 private:
  friend class HostFunctionPermit;

  static void drain() noexcept;

  static inline constinit std::atomic<bool> any_{false};
  /// The first gate waits, and so do those that come meanwhile.
  static inline constinit std::atomic<bool> is_draining_{false};
  /// Host functions of ours that have not ended.
  static inline constinit std::atomic<int> ours_{0};
};

/// Lets superpipe give a stream of the program one host function, which owns it until its end.
///
/// A driver may run the host functions of all streams one after the other. Then one of the program
/// that waits for it holds up ours, and with ours the stream that ours is on. So there are none
/// once the program has passed a gate. Any thread.
class HostFunctionPermit {
 public:
  /// None.
  HostFunctionPermit() = default;
  ~HostFunctionPermit() { release(); }
  HostFunctionPermit(HostFunctionPermit&& other) noexcept
      : is_given_(std::exchange(other.is_given_, false)) {}
  HostFunctionPermit& operator=(HostFunctionPermit&& other) noexcept {
    if (this == &other) return *this;
    release();
    is_given_ = std::exchange(other.is_given_, false);
    return *this;
  }
  HostFunctionPermit(const HostFunctionPermit&) = delete;
  HostFunctionPermit& operator=(const HostFunctionPermit&) = delete;

  /// One, unless the program has passed a gate.
  [[nodiscard]] static HostFunctionPermit ask() noexcept {
    HostFunctionPermit permit = insist();
    if (Gates::any_.load()) permit.release();
    return permit;
  }
  /// One in any case: for what cannot be done in another way.
  [[nodiscard]] static HostFunctionPermit insist() noexcept {
    HostFunctionPermit permit;
    Gates::ours_.fetch_add(1);
    permit.is_given_ = true;
    return permit;
  }
  [[nodiscard]] bool is_given() const noexcept { return is_given_; }

 private:
  void release() noexcept {
    if (std::exchange(is_given_, false)) Gates::ours_.fetch_sub(1);
  }

  bool is_given_ = false;
};

}  // namespace superpipe
