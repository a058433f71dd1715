// How many stream captures are under way, so that launches outside of them need not ask.
#pragma once

#include <atomic>
#include <chrono>
#include <shared_mutex>

#include "interposer/driver/cuda_api.h"

namespace superpipe {

/// Counts captures between the program's begin and end calls. A capture spreads to other streams
/// through events, so while any is under way each stream has to be asked for. Thread-safe.
class CaptureCount {
 public:
  /// While it lives no capture begins: for a thread that asks whether a stream is captured and, if
  /// not, marks it. A mark in between would become part of the program's graph or, on the legacy
  /// stream, break its capture.
  class Barrier {
   public:
    Barrier() : lock_(gate_) {}

   private:
    std::shared_lock<std::shared_timed_mutex> lock_;
  };

  /// Begins a capture through `call`, and counts it. Waits for barriers, which last for a driver
  /// call or two; not for long where that call itself is stuck behind work of the program (I7), or
  /// in the child of a fork, which may have copied a barrier whose thread it does not have.
  /// @return what the driver said.
  template <typename Call>
  static CUresult begin(const Call& call) noexcept {
    constexpr std::chrono::milliseconds kLongestWait{100};
    const bool locked = gate_.try_lock_for(kLongestWait);
    const CUresult result = call();
    if (result == CUDA_SUCCESS) count_.fetch_add(1, std::memory_order_relaxed);
    if (locked) gate_.unlock();
    return result;
  }
  static void end() noexcept {
    int count = count_.load(std::memory_order_relaxed);
    while (count > 0 && !count_.compare_exchange_weak(count, count - 1)) {
    }
  }
  [[nodiscard]] static bool any() noexcept { return count_.load(std::memory_order_relaxed) > 0; }

 private:
  static inline std::shared_timed_mutex gate_;
  static inline constinit std::atomic<int> count_{0};
};

}  // namespace superpipe
