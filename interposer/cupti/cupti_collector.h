// Times of all kernels from CUPTI, for a trace.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <variant>

#include "interposer/cupti/cupti_api.h"
#include "interposer/cupti/marked_launches.h"
#include "profiler/trace_recorder.h"
#include "residency/own_thread.h"

namespace superpipe {

/// Collects the times that CUPTI records of kernels. CUPTI takes one tool in a process, so there is
/// one collector at a time.
///
/// A launch is marked (LaunchMark) while it is submitted. CUPTI calls back inside of the driver's
/// launch function, on the same thread, with the number by which it correlates the launch and its
/// record, and delivers records in buffers, whenever it likes and on any thread. A thread of the
/// collector's own asks it to, so that times are told soon.
class CuptiCollector {
 public:
  /// Buffers that CUPTI has at once, and their size in bytes. It takes one for each thread that
  /// launches, fills it, and takes another. Where it can have none, it drops records.
  static constexpr std::size_t kMostBuffers = 64;
  static constexpr std::size_t kBufferBytes = std::size_t{1} << 20;
  /// CUPTI keeps times on the device in buffers of so many bytes. The time that a launch takes with
  /// it grows with what is in the present one: with its own choice, some MiB, an H200's launches
  /// took 20 us longer after a while, with this less than 1.
  static constexpr std::size_t kDeviceBufferBytes = std::size_t{256} << 10;
  /// Between two times that CUPTI is asked for what it has.
  static constexpr std::chrono::milliseconds kRest{100};

  /// Starts it, for `trace`. Calls the driver. The collector and `trace` have to stay until the
  /// process ends, because CUPTI may be calling back at any time (tests know when it does not).
  /// Throws std::bad_alloc.
  /// @return why CUPTI cannot be had, for the user: another tool has it, or it refuses the driver.
  [[nodiscard]] static std::variant<std::unique_ptr<CuptiCollector>, std::string> start(
      const CuptiApi& api, TraceRecorder& trace);
  /// As stop(), where neither that nor abandon() came before.
  ~CuptiCollector();
  CuptiCollector(const CuptiCollector&) = delete;
  CuptiCollector& operator=(const CuptiCollector&) = delete;

  /// Tells what there is, says how much CUPTI has dropped, and leaves CUPTI to others. Waits for
  /// CUPTI, but not for kernels that still run, whose times are lost. Calls the driver. Does
  /// nothing the second time, nor in the child of a fork.
  void stop() noexcept;
  /// Tells nothing any more: process exit, and the child of a fork. Calls neither CUPTI nor the
  /// driver, and takes no lock. Waits for the collector's thread, 0.2 s at most.
  void abandon() noexcept;

 private:
  CuptiCollector(const CuptiApi& api, TraceRecorder& trace) : api_(api), trace_(trace) {}

  [[nodiscard]] std::string enable();
  [[nodiscard]] std::string problem_of(CUptiResult result, const char* call) const;
  void disable() noexcept;
  void main() noexcept;
  void end_thread() noexcept;
  void flush() noexcept;
  void note(std::uint32_t correlation, const MarkedLaunch& launch) noexcept;
  void read(std::uint8_t* buffer, std::size_t valid) noexcept;
  void tell(const CUpti_ActivityKernel10& record, std::chrono::nanoseconds ahead) noexcept;
  [[nodiscard]] std::optional<std::chrono::nanoseconds> clock_ahead() const noexcept;

  [[nodiscard]] static CuptiCollector* of_process() noexcept;
  static void CUPTIAPI on_call(void* user, CUpti_CallbackDomain domain, CUpti_CallbackId function,
                               const void* data) noexcept;
  static void CUPTIAPI on_buffer_requested(std::uint8_t** buffer, std::size_t* size,
                                           std::size_t* most_records) noexcept;
  static void CUPTIAPI on_buffer_completed(CUcontext context, std::uint32_t stream,
                                           std::uint8_t* buffer, std::size_t size,
                                           std::size_t valid) noexcept;
  static void finish_at_exit() noexcept;

  // For CUPTI's callbacks, which know nobody: the collector, and the process that started one last.
  static inline constinit std::atomic<CuptiCollector*> active_{nullptr};
  static inline constinit std::atomic<int> owner_{0};

  const CuptiApi api_;
  TraceRecorder& trace_;
  CUpti_SubscriberHandle subscriber_ = nullptr;
  std::atomic<bool> has_ended_{false};
  std::atomic<bool> is_at_exit_{false};  ///< CUPTI is not to be called any more
  /// By the thread that waits for its end, or gives it up.
  std::atomic<bool> is_thread_taken_{false};

  std::mutex mutex_;  ///< guards what follows, up to the thread; held across no call of CUPTI's
  std::condition_variable changed_;
  MarkedLaunches launches_;

  OwnThread thread_;
};

}  // namespace superpipe
