// A CUPTI in the test's hands: it records what the test says, in the collector's buffers.
#pragma once

#include <cupti_driver_cbid.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "interposer/cupti/cupti_api.h"

namespace superpipe::testing {

/// One in the process at a time. Functions succeed unless told otherwise. Thread-safe.
class FakeCupti {
 public:
  FakeCupti() { current_ = this; }
  ~FakeCupti() { current_ = nullptr; }
  FakeCupti(const FakeCupti&) = delete;
  FakeCupti& operator=(const FakeCupti&) = delete;

  /// Its functions.
  [[nodiscard]] static CuptiApi api();

  // -- what the driver would do

  /// A launch inside of the driver, on this thread: calls back at its begin and its end.
  void launch(std::uint32_t correlation,
              CUpti_CallbackId function = CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel);
  /// A call back that no launch makes.
  void call_back(CUpti_CallbackDomain domain, CUpti_ApiCallbackSite site,
                 std::uint32_t correlation);
  /// A kernel ran from `begin` to `end`, by the fake's clock.
  void kernel(std::uint32_t correlation, std::uint64_t begin, std::uint64_t end,
              std::uint32_t graph = 0);
  /// One ran just now, for no time.
  void kernel_now(std::uint32_t correlation) {
    const std::uint64_t time = now();
    kernel(correlation, time, time);
  }
  /// Records of other kinds.
  template <typename Record>
  void record(const Record& record) {
    const std::lock_guard lock(mutex_);
    append(&record, sizeof record);
  }

  // -- what CUPTI's threads would do

  /// Asks for a buffer, and keeps it. @return null if there was none.
  std::uint8_t* request();
  /// Returns what is recorded.
  void deliver();
  /// Returns `buffer` with so many bytes in it.
  void complete(std::uint8_t* buffer, std::size_t valid);
  /// Has the next records go to another buffer. @return the former one and its bytes.
  std::pair<std::uint8_t*, std::size_t> change_buffer();

  /// Its clock: nanoseconds, ahead of the steady one by `ahead`.
  [[nodiscard]] std::uint64_t now() const;

  // -- what it is told to do, and did

  std::atomic<std::int64_t> ahead{1'700'000'000'000'000'000};
  std::map<std::string, CUptiResult, std::less<>> refusals;  ///< by the function's name
  std::size_t dropped = 0;                                   ///< records, since that was last asked
  std::function<void()> on_next_record;                      ///< while a buffer is read
  std::atomic<int> subscribers{0};
  std::atomic<int> flushes{0};               ///< also those that are not forced
  std::atomic<int> forced_flushes{0};        ///< a forced one delivers
  std::atomic<bool> flushes_deliver{false};  ///< so does another then
  std::set<CUpti_CallbackId> functions;      ///< that call back
  std::atomic<int> kinds{0};                 ///< of activities that are recorded
  std::size_t device_buffer_bytes = 3 << 20;

 private:
  struct Functions;

  void append(const void* record, std::size_t size);
  [[nodiscard]] CUptiResult answer(std::string_view function) const {
    const auto refusal = refusals.find(function);
    return refusal != refusals.end() ? refusal->second : CUPTI_SUCCESS;
  }

  static inline FakeCupti* current_ = nullptr;

  std::mutex mutex_;  ///< guards the buffer
  CUpti_CallbackFunc on_call_ = nullptr;
  CUpti_BuffersCallbackRequestFunc request_ = nullptr;
  CUpti_BuffersCallbackCompleteFunc complete_ = nullptr;
  std::uint8_t* buffer_ = nullptr;
  std::atomic<std::size_t> size_{0};  ///< of a buffer
  std::size_t valid_ = 0;
};

}  // namespace superpipe::testing
