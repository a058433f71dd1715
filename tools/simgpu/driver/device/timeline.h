// Modelled time: when operations start and end, and how threads wait for it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "tools/simgpu/driver/entry/api.h"

namespace simgpu {

/// Nanoseconds of CLOCK_MONOTONIC.
using Nanoseconds = std::int64_t;

/// Now.
Nanoseconds now_ns() noexcept;

/// Returns at `deadline` or up to a few tens of microseconds later. Sleeps, and spins for the last
/// few microseconds only. Returns at once if it has passed.
void sleep_until(Nanoseconds deadline) noexcept;

/// As sleep_until(), without spinning: up to 100 us late. For waits whose lateness does no harm.
void sleep_until_about(Nanoseconds deadline) noexcept;

/// Gives the calling thread the shortest timer slack, for as long as it lives. For threads that
/// simgpu started.
void use_precise_timer() noexcept;

/// The engines of a device; kNone runs beside them (events, host functions).
enum class Engine { kCompute, kHostToDevice, kDeviceToHost, kNone };
inline constexpr int kEngineCount = 3;

/// When an operation has an engine.
struct Slot {
  Nanoseconds start = 0;
  Nanoseconds end = 0;
};

/// The completion of one operation. It is settled when the operation's real work is done and its
/// modelled end is known; it is complete when that end has also passed.
///
/// Thread-safe; shared by the stream, events and waiters.
class Completion {
 public:
  /// Says when the operation will probably end, before it has: waiters then sleep by the clock.
  void announce(Nanoseconds end) noexcept;
  /// Publishes the end. Once.
  void settle(Nanoseconds end) noexcept;
  [[nodiscard]] bool settled() const noexcept {
    return state_.load(std::memory_order_acquire) == kSettled;
  }
  /// REQUIRES settled().
  [[nodiscard]] Nanoseconds end() const noexcept { return end_; }
  /// Whether the modelled end has passed and the work is done.
  [[nodiscard]] bool complete() const noexcept { return settled() && now_ns() >= end_; }
  /// Waits until settled (a stream's worker then models on). @return end().
  Nanoseconds wait_settled() const noexcept;
  /// Waits, in real time, until complete.
  void wait() const noexcept;

 private:
  static constexpr int kPending = 0;
  static constexpr int kAnnounced = 1;
  static constexpr int kSettled = 2;

  std::atomic<int> state_{kPending};
  std::atomic<Nanoseconds> announced_{0};
  Nanoseconds end_ = 0;
};

using CompletionPtr = std::shared_ptr<Completion>;

}  // namespace simgpu
