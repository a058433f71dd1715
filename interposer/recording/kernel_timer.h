// How long kernels take on the device, for a trace: by events around some of their launches.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <vector>

#include "interposer/driver/cuda_api.h"
#include "policy/units.h"
#include "profiler/trace_recorder.h"
#include "residency/device_memory.h"
#include "residency/own_thread.h"

namespace superpipe {

/// Times launches by an event before and one behind them in their stream.
///
/// The first launches of each kernel are timed, then one in so many, drawn at random, so that in
/// time each launch of a pass has its turn. A launch that is not timed costs a load and a store.
/// One that is costs two records of an event, and where the device could have begun it before the
/// last one ended, that as well. A thread of its own looks at what has ended while anything is
/// under way, and tells the trace. When a driver call fails, nothing is timed any more.
class KernelTimer {
 public:
  /// Launches of a kernel that are all timed.
  static constexpr std::uint32_t kFirst = 32;
  /// Of later ones, one in so many.
  static constexpr std::uint32_t kOneIn = 64;
  /// Launches that are timed at once; what comes while so many are under way is not.
  static constexpr std::size_t kMostUnderWay = 256;
  /// Between two looks at what is under way.
  static constexpr std::chrono::milliseconds kRest{10};

  /// A launch that is being timed, or none.
  class Timing {
   public:
    Timing() = default;
    explicit operator bool() const noexcept { return begin_ != nullptr; }

   private:
    friend class KernelTimer;
    KernelId kernel_{};
    CUevent begin_ = nullptr;
    CUevent end_ = nullptr;
  };

  /// Times launches in `context`, for `trace`, which must outlive the timer. Calls the driver.
  /// @return null if there are no events, or no thread.
  [[nodiscard]] static std::unique_ptr<KernelTimer> start(CUcontext context,
                                                          TraceRecorder& trace) noexcept;
  /// As stop(), where neither that nor abandon() came before. REQUIRES: no abandon() that returned
  /// false.
  ~KernelTimer() {
    if (thread_.is_started()) stop();
  }
  KernelTimer(const KernelTimer&) = delete;
  KernelTimer& operator=(const KernelTimer&) = delete;

  /// A launch of `kernel` is about to be submitted to `stream`, of this context, behind all that it
  /// has to wait for. Any thread.
  [[nodiscard]] Timing begin(KernelId kernel, StreamHandle stream) noexcept {
    std::atomic<std::uint32_t>& left = left_[slot_of(kernel)];
    const std::uint32_t skipped = left.load(std::memory_order_relaxed);
    if (skipped > 0) [[likely]] {
      // Two threads may count as one: then a launch later is timed.
      left.store(skipped - 1, std::memory_order_relaxed);
      return {};
    }
    return begin_slowly(kernel, stream);
  }
  /// It was submitted, if `has_succeeded`, as launch `number` of the trace; one that does not name
  /// buffers has the number of the last that does. REQUIRES: `timing`.
  void end(const Timing& timing, StreamHandle stream, std::uint64_t number, bool names_buffers,
           bool has_succeeded) noexcept;

  /// Tells what has ended by now, and gives the events back. The context must still exist. Waits
  /// for the timer's thread.
  void stop() noexcept;
  /// The same without the driver: at process exit, and in the child of a fork. @return whether the
  /// thread has ended, so that the timer may go.
  bool abandon() noexcept;

 private:
  static constexpr std::size_t kSlots = 4096;

  struct UnderWay {
    Timing timing;
    StreamHandle stream;
    std::uint64_t launch;
    bool names_buffers;
  };
  using TimePoint = TraceRecorder::TimePoint;

  KernelTimer(CUcontext context, TraceRecorder& trace) : context_(context), trace_(trace) {}

  // Kernels that share a slot share its turns.
  static std::size_t slot_of(KernelId kernel) noexcept {
    return (static_cast<std::uint64_t>(kernel) * 0x9E37'79B9'7F4A'7C15) >> 52;
  }
  [[nodiscard]] Timing begin_slowly(KernelId kernel, StreamHandle stream) noexcept;
  [[nodiscard]] Timing take_events(std::size_t slot);
  void main() noexcept;
  void collect();
  void tell(const UnderWay& one, TimePoint now);
  void renew_base();
  void fail() noexcept;
  void destroy_events() noexcept;

  const CUcontext context_;
  TraceRecorder& trace_;
  std::array<std::atomic<std::uint32_t>, kSlots> left_{};  ///< launches until the next timed one
  std::atomic<bool> has_ended_{false};

  std::mutex mutex_;  ///< guards what follows, up to the thread's own
  std::condition_variable changed_;
  std::array<std::uint32_t, kSlots> timed_{};
  std::minstd_rand random_;
  std::vector<Timing> free_;
  std::size_t made_ = 0;  ///< pairs of events
  std::deque<UnderWay> under_way_;

  // The thread's: an event of which it knows when it was.
  CUstream stream_ = nullptr;
  CUevent base_ = nullptr;
  std::optional<TimePoint> base_time_;

  OwnThread thread_;
};

}  // namespace superpipe
