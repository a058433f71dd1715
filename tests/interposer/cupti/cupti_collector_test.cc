// ToldTimes of kernels by CUPTI: from marked launches and buffers of records to a trace.
#include "interposer/cupti/cupti_collector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "profiler/trace_reader.h"
#include "tests/interposer/cupti/fake_cupti.h"
#include "tests/profiler/trace_examples.h"

namespace superpipe {
namespace {

using std::chrono::nanoseconds;
using ::testing::ElementsAre;
using testing::FakeCupti;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::MemorySink;
using ::testing::UnorderedElementsAre;

constexpr std::chrono::milliseconds kNearly{100};

/// A time that was told, as "launch/launches duration kernel".
class ToldTimes : public TraceVisitor {
 public:
  void on_kernel(const TraceKernel& event) override { kernels[event.index] = event.name; }
  void on_kernel_time(const TraceMoment& when, const TraceKernelTime& event) override {
    told.push_back(std::to_string(event.launch.value) + "/" + std::to_string(event.launches) + " " +
                   std::to_string(event.duration_ns) + " " + kernels[event.kernel]);
    begins.push_back(when.time + event.begin);
  }
  std::map<TraceIndex, std::string> kernels;
  std::vector<std::string> told;
  std::vector<std::int64_t> begins;
};

class CuptiCollectorTest : public ::testing::Test {
 protected:
  CuptiCollectorTest() {
    options_.kernel_name = [](KernelId kernel) {
      return "kernel" + std::to_string(static_cast<std::uint64_t>(kernel));
    };
    recorder_ = std::make_unique<TraceRecorder>(sink_, start_, options_);
    EXPECT_EQ(recorder_->begin({}), std::nullopt);
  }

  void start() {
    auto started = CuptiCollector::start(FakeCupti::api(), *recorder_);
    ASSERT_TRUE(std::holds_alternative<std::unique_ptr<CuptiCollector>>(started))
        << std::get<std::string>(started);
    collector_ = std::get<std::unique_ptr<CuptiCollector>>(std::move(started));
  }
  std::string refusal() {
    auto started = CuptiCollector::start(FakeCupti::api(), *recorder_);
    const auto* const problem = std::get_if<std::string>(&started);
    return problem != nullptr ? *problem : "it starts";
  }
  /// Launch `number`, which CUPTI knows as `correlation`.
  void launch(std::uint32_t correlation, std::uint64_t number, bool names_buffers = true) {
    const LaunchMark mark(*collector_, {number, KernelId{number}, names_buffers});
    cupti_.launch(correlation);
  }
  /// Ends the trace, which must be whole.
  ToldTimes told() {
    EXPECT_TRUE(recorder_->finish(std::chrono::steady_clock::now()));
    auto reader = TraceReader::from(std::make_unique<TraceBytesSource>(sink_.bytes), "recorded");
    EXPECT_TRUE(reader.ok());
    ToldTimes times;
    EXPECT_EQ(reader->read_all(times), std::nullopt);
    EXPECT_TRUE(reader->ending().is_complete);
    EXPECT_EQ(reader->ending().dropped, 0U);
    return times;
  }

  FakeCupti cupti_;
  MemorySink sink_;
  TraceRecorder::Options options_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::unique_ptr<TraceRecorder> recorder_;
  std::unique_ptr<CuptiCollector> collector_;
};

TEST_F(CuptiCollectorTest, TellsTheTimeOfEachLaunch) {
  start();
  launch(101, 1);
  launch(102, 1, false);
  launch(103, 2);
  const std::uint64_t now = cupti_.now();
  cupti_.kernel(101, now, now + 40);
  cupti_.kernel(102, now, now + 70);
  cupti_.kernel(103, now, now + 50);
  cupti_.deliver();
  EXPECT_THAT(told().told, ElementsAre("1/1 40 kernel1", "1/0 70 kernel1", "2/1 50 kernel2"));
}

TEST_F(CuptiCollectorTest, AsksForCallsOfLaunchesAlone) {
  start();
  EXPECT_THAT(cupti_.functions,
              UnorderedElementsAre(CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel,
                                   CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz,
                                   CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx,
                                   CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz,
                                   CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel,
                                   CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel_ptsz));
  EXPECT_EQ(cupti_.kinds, 1);
}

// CUPTI's clock is the system's time, and somebody may set that.
TEST_F(CuptiCollectorTest, TimesAreByTheClockOfTheTrace) {
  start();
  std::vector<std::int64_t> began;
  for (std::uint32_t i = 1; i <= 3; ++i) {
    launch(i, i);
    cupti_.ahead += std::chrono::nanoseconds(std::chrono::hours(1)).count();
    const std::uint64_t begin = cupti_.now() - 5'000'000;
    began.push_back(static_cast<std::int64_t>(begin) - cupti_.ahead -
                    start_.time_since_epoch().count());
    cupti_.kernel(i, begin, begin + 10);
    cupti_.deliver();
  }
  const ToldTimes times = told();
  ASSERT_EQ(times.begins.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_LT(std::abs(times.begins[i] - began[i]), nanoseconds(kNearly).count()) << i;
  }
}

TEST_F(CuptiCollectorTest, RecordsComeInAnyOrderAndInSeveralBuffers) {
  start();
  for (std::uint32_t i = 1; i <= 4; ++i) launch(i, i);
  const std::uint64_t now = cupti_.now();
  cupti_.kernel(3, now, now + 3);
  cupti_.kernel(1, now, now + 1);
  const auto [first, first_bytes] = cupti_.change_buffer();
  cupti_.kernel(4, now, now + 4);
  cupti_.kernel(2, now, now + 2);
  const auto [second, second_bytes] = cupti_.change_buffer();
  cupti_.complete(second, second_bytes);
  cupti_.complete(first, first_bytes);
  EXPECT_THAT(told().told,
              ElementsAre("4/1 4 kernel4", "2/1 2 kernel2", "3/1 3 kernel3", "1/1 1 kernel1"));
}

TEST_F(CuptiCollectorTest, WhatNobodyMarkedIsNotTold) {
  start();
  cupti_.launch(1);  // superpipe's own, or one of another context
  launch(2, 2);
  {
    const LaunchMark mark(*collector_, {3, KernelId{3}, true});
    cupti_.call_back(CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_API_ENTER, 3);
    cupti_.call_back(CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_API_EXIT, 4);
    std::thread([&] { cupti_.launch(5); }).join();
  }
  cupti_.launch(6);  // the mark is gone
  const std::uint64_t now = cupti_.now();
  for (std::uint32_t i = 1; i <= 6; ++i) cupti_.kernel(i, now, now + i);
  cupti_.deliver();
  EXPECT_THAT(told().told, ElementsAre("2/1 2 kernel2"));
}

TEST_F(CuptiCollectorTest, RecordsOfOtherKindsAndOfGraphsAreSkipped) {
  start();
  launch(1, 1);
  const std::uint64_t now = cupti_.now();
  CUpti_ActivityExternalCorrelation foreign{};
  foreign.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION;
  foreign.externalKind = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;
  foreign.correlationId = 1;
  cupti_.record(foreign);
  CUpti_ActivityMemcpy6 copy{};
  copy.kind = CUPTI_ACTIVITY_KIND_MEMCPY;
  copy.correlationId = 1;
  copy.start = copy.end = now;
  cupti_.record(copy);
  CUpti_ActivityKernel10 other_kind{};  // which looks the same otherwise
  other_kind.kind = CUPTI_ACTIVITY_KIND_KERNEL;
  other_kind.correlationId = 1;
  other_kind.start = now;
  other_kind.end = now + 4;
  cupti_.record(other_kind);
  cupti_.kernel(1, now, now + 5, 77);
  cupti_.kernel(1, now, now + 6);
  cupti_.deliver();
  EXPECT_THAT(told().told, ElementsAre("1/1 6 kernel1"));
}

TEST_F(CuptiCollectorTest, TimesThatCuptiCouldNotTakeAreNotTold) {
  start();
  for (std::uint32_t i = 1; i <= 3; ++i) launch(i, i);
  const std::uint64_t now = cupti_.now();
  cupti_.kernel(1, 0, 0);
  cupti_.kernel(2, now, 0);  // it still runs
  cupti_.kernel(3, now, now);
  cupti_.deliver();
  EXPECT_THAT(told().told, ElementsAre("3/1 0 kernel3"));
}

TEST_F(CuptiCollectorTest, AClockThatFailsLeavesTheTraceWithoutTimes) {
  start();
  launch(1, 1);
  cupti_.kernel_now(1);
  cupti_.refusals["cuptiGetTimestamp"] = CUPTI_ERROR_UNKNOWN;
  cupti_.deliver();
  EXPECT_THAT(told().told, IsEmpty());
}

TEST_F(CuptiCollectorTest, AsksCuptiAgainAndAgain) {
  start();
  launch(1, 1);
  const std::uint64_t now = cupti_.now();
  cupti_.kernel(1, now, now + 5);
  cupti_.flushes_deliver = true;
  while (cupti_.flushes < 3) std::this_thread::yield();
  EXPECT_EQ(cupti_.forced_flushes, 0);
  EXPECT_EQ(cupti_.change_buffer().first, nullptr) << "it was delivered";
  EXPECT_THAT(told().told, ElementsAre("1/1 5 kernel1"));
}

TEST_F(CuptiCollectorTest, StopTellsTheRestAndLeavesCuptiToOthers) {
  start();
  launch(1, 1);
  const std::uint64_t now = cupti_.now();
  cupti_.kernel(1, now, now + 5);
  collector_->stop();
  EXPECT_EQ(cupti_.forced_flushes, 1);
  EXPECT_EQ(cupti_.subscribers, 0);
  EXPECT_EQ(cupti_.kinds, 0);
  EXPECT_EQ(cupti_.request(), nullptr);
  collector_->stop();
  EXPECT_EQ(cupti_.forced_flushes, 1);
  EXPECT_THAT(told().told, ElementsAre("1/1 5 kernel1"));
  start();
  EXPECT_EQ(cupti_.subscribers, 1);
}

TEST_F(CuptiCollectorTest, ABufferThatComesTooLateIsTakenBack) {
  start();
  launch(1, 1);
  cupti_.kernel_now(1);
  const auto [late, bytes] = cupti_.change_buffer();
  ASSERT_NE(late, nullptr);
  collector_->stop();
  cupti_.complete(late, bytes);
  EXPECT_THAT(told().told, IsEmpty());
}

// The next trace numbers its launches from 1 again.
TEST_F(CuptiCollectorTest, ALateBufferIsOfNoLaunchOfTheNextTrace) {
  start();
  launch(1, 1);
  cupti_.kernel_now(1);
  const auto [late, bytes] = cupti_.change_buffer();
  collector_->stop();
  start();
  launch(2, 1);
  cupti_.complete(late, bytes);
  EXPECT_THAT(told().told, IsEmpty());
}

// Another tool's, which used CUPTI before and left one behind. To free it would end the program.
TEST_F(CuptiCollectorTest, ABufferOfSomebodyElsesIsLeftAlone) {
  start();
  launch(1, 1);
  alignas(CUpti_ActivityKernel10) std::array<std::uint8_t, sizeof(CUpti_ActivityKernel10)> other{};
  CUpti_ActivityKernel10 kernel{};
  kernel.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
  kernel.correlationId = 1;
  kernel.start = kernel.end = cupti_.now();
  std::memcpy(other.data(), &kernel, sizeof kernel);
  cupti_.complete(other.data(), other.size());
  cupti_.complete(nullptr, 0);
  EXPECT_THAT(told().told, IsEmpty());
}

TEST_F(CuptiCollectorTest, StopComesWhileABufferIsRead) {
  start();
  launch(1, 1);
  launch(2, 2);
  const std::uint64_t now = cupti_.now();
  cupti_.kernel(1, now, now + 1);
  cupti_.kernel(2, now, now + 2);
  const auto [buffer, bytes] = cupti_.change_buffer();
  std::atomic<bool> is_reading{false};
  std::atomic<bool> has_stopped{false};
  cupti_.on_next_record = [&] {
    is_reading = true;
    while (!has_stopped) std::this_thread::yield();
  };
  std::thread reader([&, buffer = buffer, bytes = bytes] { cupti_.complete(buffer, bytes); });
  while (!is_reading) std::this_thread::yield();
  collector_->stop();  // takes no lock that the reader holds
  has_stopped = true;
  reader.join();
  EXPECT_THAT(told().told, ElementsAre("1/1 1 kernel1", "2/1 2 kernel2"));
}

TEST_F(CuptiCollectorTest, ManyThreadsLaunchWhileBuffersCome) {
  constexpr std::uint32_t kThreads = 4;
  constexpr std::uint32_t kEach = 500;
  start();
  std::vector<std::thread> threads;
  for (std::uint32_t thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (std::uint32_t i = 0; i < kEach; ++i) {
        const std::uint32_t number = thread * kEach + i + 1;
        launch(number, number);
        cupti_.kernel_now(number);
        if (i % 50 == 0) cupti_.deliver();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  collector_->stop();
  EXPECT_EQ(told().told.size(), kThreads * kEach);
}

TEST_F(CuptiCollectorTest, CuptiHasSoManyBuffersAndNoMore) {
  start();
  std::vector<std::uint8_t*> buffers;
  for (std::size_t i = 0; i < CuptiCollector::kMostBuffers; ++i) {
    buffers.push_back(cupti_.request());
    ASSERT_NE(buffers.back(), nullptr) << i;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffers.back()) % ACTIVITY_RECORD_ALIGNMENT, 0U);
  }
  EXPECT_EQ(cupti_.request(), nullptr);
  cupti_.complete(buffers.back(), 0);
  buffers.back() = cupti_.request();
  EXPECT_NE(buffers.back(), nullptr);
  for (std::uint8_t* const buffer : buffers) cupti_.complete(buffer, 0);
}

TEST_F(CuptiCollectorTest, SaysHowMuchWasDropped) {
  start();
  cupti_.dropped = 1234;
  ::testing::internal::CaptureStderr();
  collector_->stop();
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("CUPTI dropped 1234 records"));
}

TEST_F(CuptiCollectorTest, SaysNothingWhereNothingWasDropped) {
  start();
  ::testing::internal::CaptureStderr();
  collector_->stop();
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), IsEmpty());
}

TEST_F(CuptiCollectorTest, AnotherToolHasCupti) {
  cupti_.refusals["cuptiSubscribe"] = CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  EXPECT_EQ(refusal(), "cuptiSubscribe: error 39 (another tool profiles the process)");
  EXPECT_EQ(cupti_.kinds, 0);
  cupti_.refusals.clear();
  start();
}

TEST_F(CuptiCollectorTest, EachRefusalIsNamedAndUndone) {
  for (const char* const function : {"cuptiEnableCallback", "cuptiActivityRegisterCallbacks",
                                     "cuptiGetTimestamp", "cuptiActivityEnable"}) {
    cupti_.refusals = {{function, CUPTI_ERROR_NOT_COMPATIBLE}};
    EXPECT_EQ(refusal(), std::string(function) + ": CUPTI_ERROR_NOT_COMPATIBLE");
    EXPECT_EQ(cupti_.subscribers, 0) << function;
  }
  cupti_.refusals.clear();
  start();
}

// Launches take longer the more times a buffer on the device has.
TEST_F(CuptiCollectorTest, HasCuptiKeepTimesInSmallBuffersOnTheDevice) {
  start();
  EXPECT_EQ(cupti_.device_buffer_bytes, CuptiCollector::kDeviceBufferBytes);
}

TEST_F(CuptiCollectorTest, RecordsAsWellWhereThoseBuffersCannotBeMadeSmall) {
  cupti_.refusals = {{"cuptiActivitySetAttribute", CUPTI_ERROR_INVALID_PARAMETER}};
  start();
  launch(1, 1);
  cupti_.kernel_now(1);
  collector_->stop();
  EXPECT_EQ(told().told.size(), 1U);
}

TEST_F(CuptiCollectorTest, ThereIsOneAtATime) {
  start();
  EXPECT_EQ(refusal(), "another context of this process is recorded with it");
  EXPECT_EQ(cupti_.subscribers, 1);
  launch(1, 1);
  cupti_.kernel_now(1);
  collector_->stop();
  EXPECT_EQ(told().told.size(), 1U) << "the first one goes on";
}

TEST_F(CuptiCollectorTest, TheChildOfAForkLeavesItAlone) {
  start();
  launch(1, 1);
  cupti_.kernel_now(1);
  const pid_t child = ::fork();
  if (child == 0) {
    const int flushes = cupti_.flushes;
    int code = 0;
    if (cupti_.request() != nullptr) code = 1;
    cupti_.on_next_record = [] { ::_exit(2); };
    cupti_.deliver();
    collector_->stop();
    if (cupti_.flushes != flushes || cupti_.subscribers != 1) code = 3;
    collector_->abandon();
    ::_exit(code);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  collector_->stop();
  EXPECT_EQ(told().told.size(), 1U);
}

TEST_F(CuptiCollectorTest, AbandonedItTellsNothingAndCallsNobody) {
  start();
  launch(1, 1);
  cupti_.kernel_now(1);
  collector_->abandon();
  launch(2, 2);
  cupti_.deliver();
  collector_.reset();
  EXPECT_EQ(cupti_.forced_flushes, 0);
  EXPECT_EQ(cupti_.subscribers, 1);
  EXPECT_THAT(told().told, IsEmpty());
}

using CuptiCollectorDeathTest = CuptiCollectorTest;

// The last buffers are there when a program ends that never destroys its context.
TEST_F(CuptiCollectorDeathTest, TellsTheRestAtExit) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  static std::function<bool()> has_told_one;
  const auto program = [this] {
    has_told_one = [this] {
      return cupti_.forced_flushes == 1 && told().told.size() == 1 && cupti_.subscribers == 1;
    };
    // Before the collector registers its own, so that it runs after that.
    (void)std::atexit([] { ::_exit(has_told_one() ? 42 : 1); });
    start();
    launch(1, 1);
    cupti_.kernel_now(1);
    std::exit(0);
  };
  EXPECT_EXIT(program(), ::testing::ExitedWithCode(42), "");
}

}  // namespace
}  // namespace superpipe
