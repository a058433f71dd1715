// Times of kernels: which launches are timed, what the trace is told, and what a failing driver
// does.
#include "interposer/recording/kernel_timer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <map>
#include <thread>
#include <vector>

#include "interposer/driver/hook_scope.h"
#include "profiler/trace_reader.h"
#include "tests/interposer/managed_fixture.h"
#include "tests/temporary_folder.h"

namespace superpipe {
namespace {

using ::testing::Each;
using ::testing::IsEmpty;

constexpr float kKernelMs = 0.25F;

std::atomic<int> events_made{0};
std::atomic<int> events_destroyed{0};
std::atomic<int> records{0};
std::atomic<int> times_asked{0};
std::atomic<bool> ends_kernels{true};
std::atomic<bool> refuses_records{false};

class Times : public TraceVisitor {
 public:
  void on_launch(const TraceMoment& when, const TraceLaunch& event) override {
    launched_at[event.launch.value] = when.time;
    ++launches;
  }
  void on_kernel_time(const TraceMoment& when, const TraceKernelTime& event) override {
    timed.push_back(event.launch.value);
    durations.push_back(event.duration_ns);
    of_launches.push_back(event.launches);
    begins.push_back(when.time + event.begin);
  }
  std::map<std::uint64_t, std::int64_t> launched_at;
  std::uint64_t launches = 0;
  std::vector<std::uint64_t> timed;
  std::vector<std::uint64_t> durations;
  std::vector<std::uint64_t> of_launches;
  std::vector<std::int64_t> begins;
};

/// The driver's events are numbers that grow; any two of them are a kernel apart.
class KernelTimerTest : public testing::ManagedFixture {
 protected:
  void configure(Configuration& configuration) override {
    folder_ = make_temporary_folder("kernel_timer_test");
    configuration.trace_file = folder_ / "run.sptrace";
    ends_kernels = true;
    refuses_records = false;
    events_made = events_destroyed = records = times_asked = 0;
    DriverTable& table = driver();
    table.cuStreamCreate = [](CUstream* stream, unsigned) {
      *stream = reinterpret_cast<CUstream>(0x7770);
      return CUDA_SUCCESS;
    };
    table.cuEventCreate = [](CUevent* event, unsigned flags) {
      // Those of residency have no time.
      events_made += (flags & CU_EVENT_DISABLE_TIMING) == 0 ? 1 : 0;
      static std::atomic<std::uintptr_t> last{0x10'0000};
      *event = reinterpret_cast<CUevent>(last += 2);
      return CUDA_SUCCESS;
    };
    table.cuEventDestroy_v2 = [](CUevent) {
      ++events_destroyed;
      return CUDA_SUCCESS;
    };
    table.cuEventRecord = [](CUevent, CUstream) {
      ++records;
      return refuses_records ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
    };
    table.cuEventQuery = [](CUevent) { return ends_kernels ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY; };
    table.cuEventElapsedTime_v2 = [](float* took, CUevent, CUevent) {
      *took = kKernelMs;
      ++times_asked;
      return CUDA_SUCCESS;
    };
  }
  ~KernelTimerTest() override { std::filesystem::remove_all(folder_); }

  void launch_times(int times, std::uintptr_t kernel = 1) const {
    for (int i = 0; i < times; ++i) {
      ASSERT_EQ(launch(testing::null_kernel(kernel), buffer_, other_), CUDA_SUCCESS);
    }
  }
  /// Ends the context, and reads what was recorded.
  Times recorded() {
    // On a thread of its own, which has room for what the timer tells at its end, however much of
    // what this thread recorded is still to be written.
    std::thread([] {
      CUcontext context = nullptr;
      driver().cuCtxGetCurrent(&context);
      ContextRegistry::of_process().on_destroying(context);
    }).join();
    auto reader = TraceReader::open(folder_ / "run.sptrace");
    EXPECT_TRUE(reader.ok());
    Times times;
    EXPECT_EQ(reader->read_all(times), std::nullopt);
    return times;
  }

  std::filesystem::path folder_;
};

TEST_F(KernelTimerTest, TheFirstLaunchesOfEachKernelAreTimed) {
  launch_times(10, 1);
  launch_times(10, 2);
  const Times times = recorded();
  EXPECT_EQ(times.launches, 20U);
  ASSERT_EQ(times.timed.size(), 20U);
  for (std::uint64_t i = 0; i < 20; ++i) EXPECT_EQ(times.timed[i], i + 1);
  EXPECT_THAT(times.durations, Each(250'000U));
  EXPECT_THAT(times.of_launches, Each(1U));
}

TEST_F(KernelTimerTest, LaterOnesAreTimedOnceInAWhile) {
  constexpr int kLaunches = 4000;
  launch_times(kLaunches);
  const Times times = recorded();
  const auto later = times.timed.size() - KernelTimer::kFirst;
  constexpr double kExpected = double{kLaunches} / KernelTimer::kOneIn;
  EXPECT_GT(later, 0.6 * kExpected);
  EXPECT_LT(later, 1.5 * kExpected);
  // Not the same ones of each pass.
  std::map<std::uint64_t, int> place_in_pass;
  for (const std::uint64_t launch : times.timed) ++place_in_pass[launch % 32];
  EXPECT_GT(place_in_pass.size(), 20U);
}

TEST_F(KernelTimerTest, ALaunchWithoutBuffersIsNamedByTheOneBefore) {
  launch_times(1, 1);
  ASSERT_EQ(launch(testing::null_kernel(2), 1, 2), CUDA_SUCCESS);
  const Times times = recorded();
  EXPECT_THAT(times.timed, ::testing::ElementsAre(1U, 1U));
  EXPECT_THAT(times.of_launches, ::testing::ElementsAre(1U, 0U));
}

TEST_F(KernelTimerTest, WhatIsUnderWayIsBoundedAndToldWhenItEnds) {
  ends_kernels = false;
  launch_times(20'000);
  EXPECT_LE(events_made, 2 * static_cast<int>(KernelTimer::kMostUnderWay) + 8) << "and residency's";
  ends_kernels = true;
  const Times times = recorded();
  EXPECT_EQ(times.timed.size(), KernelTimer::kMostUnderWay);
}

TEST_F(KernelTimerTest, ACapturedStreamIsLeftAlone) {
  auto* const stream = reinterpret_cast<CUstream>(0x5550);
  ASSERT_EQ(hook::cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  testing::set_captured_stream(stream);
  const int before = records;
  launch_times(5);
  EXPECT_EQ(launch(testing::null_kernel(1), buffer_, other_, stream), CUDA_SUCCESS);
  EXPECT_EQ(records, before) << "nor is any other, while the driver forbids some calls";
  testing::set_captured_stream(nullptr);
  CUgraph graph = nullptr;
  (void)hook::cuStreamEndCapture(stream, &graph);
  EXPECT_THAT(recorded().timed, IsEmpty());
}

TEST_F(KernelTimerTest, ADriverThatRefusesEndsIt) {
  launch_times(3);
  // Until the timer's thread knows when each began and ended, and records no event of its own.
  while (times_asked < 2 * 3) std::this_thread::yield();
  refuses_records = true;
  launch_times(1);
  refuses_records = false;
  const int before = records;
  launch_times(5);
  EXPECT_EQ(records, before);
  EXPECT_EQ(recorded().launches, 9U) << "the program goes on";
}

TEST_F(KernelTimerTest, NoEventIsLeftBehind) {
  launch_times(20);
  (void)recorded();
  EXPECT_GE(events_destroyed, events_made);
}

}  // namespace
}  // namespace superpipe
