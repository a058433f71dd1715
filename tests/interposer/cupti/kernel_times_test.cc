// Which times of kernels a managed context has its trace told, by SUPERPIPE_KERNEL_TIMES.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <atomic>
#include <filesystem>
#include <string>
#include <vector>

#include "interposer/cupti/cupti_collector.h"
#include "profiler/trace_reader.h"
#include "tests/interposer/cupti/fake_cupti.h"
#include "tests/interposer/managed_fixture.h"
#include "tests/temporary_folder.h"

namespace superpipe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::atomic<std::uint32_t> driver_launches{0};  // of the driver's launch function
std::atomic<int> timing_events{0};              // with a time that were made
testing::FakeCupti* fake_in_use = nullptr;

class TracedTimes : public TraceVisitor {
 public:
  void on_launch(const TraceMoment& /*when*/, const TraceLaunch& /*event*/) override { ++launches; }
  void on_kernel_time(const TraceMoment& /*when*/, const TraceKernelTime& event) override {
    told.push_back(std::to_string(event.launch.value) + "/" + std::to_string(event.launches));
  }
  int launches = 0;
  std::vector<std::string> told;
};

/// The loader finds the fake as libcupti.so.13, because the process has it by that name.
class KernelTimesTest : public testing::ManagedFixture {
 protected:
  void SetUp() override {
    // ManagedFixture's is called by those that say first what they want.
    library_ = ::dlopen(FAKE_CUPTI, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library_, nullptr) << ::dlerror();
    auto* const functions = static_cast<CuptiApi*>(::dlsym(library_, "fake_cupti"));
    ASSERT_NE(functions, nullptr);
    *functions = testing::FakeCupti::api();
    fake_in_use = &cupti_;
    driver_launches = 0;
    timing_events = 0;
  }
  void TearDown() override {
    testing::ManagedFixture::TearDown();
    std::filesystem::remove_all(folder_);
  }

  void begin(KernelTimes times) {
    times_ = times;
    testing::ManagedFixture::SetUp();
  }
  void configure(Configuration& configuration) override {
    folder_ = make_temporary_folder("kernel_times_test");
    if (is_traced_) configuration.trace_file = folder_ / "run.sptrace";
    configuration.kernel_times = times_;
    // Every call has a record, whoever makes it.
    driver().cuLaunchKernel = [](CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned,
                                 unsigned, unsigned, CUstream, void**, void**) {
      const std::uint32_t call = ++driver_launches;
      if (fake_in_use->subscribers > 0) {
        fake_in_use->launch(call);
        fake_in_use->kernel_now(call);
      }
      return CUDA_SUCCESS;
    };
    driver().cuStreamCreate = [](CUstream* stream, unsigned) {
      *stream = reinterpret_cast<CUstream>(0x7770);
      return CUDA_SUCCESS;
    };
    driver().cuEventCreate = [](CUevent* event, unsigned flags) {
      timing_events += (flags & CU_EVENT_DISABLE_TIMING) == 0 ? 1 : 0;
      static std::atomic<std::uintptr_t> last{0x10'0000};
      *event = reinterpret_cast<CUevent>(last += 2);
      return CUDA_SUCCESS;
    };
  }
  /// Ends the context, and reads what was recorded.
  TracedTimes recorded() {
    end_context();
    auto reader = TraceReader::open(folder_ / "run.sptrace");
    EXPECT_TRUE(reader.ok());
    TracedTimes times;
    EXPECT_EQ(reader->read_all(times), std::nullopt);
    EXPECT_TRUE(reader->ending().is_complete);
    return times;
  }
  static void end_context() {
    CUcontext context = nullptr;
    driver().cuCtxGetCurrent(&context);
    ContextRegistry::of_process().on_destroying(context);
  }

  testing::FakeCupti cupti_;
  void* library_ = nullptr;
  KernelTimes times_ = KernelTimes::kCupti;
  bool is_traced_ = true;
  std::filesystem::path folder_;
};

TEST_F(KernelTimesTest, CuptiTimesEveryLaunch) {
  begin(KernelTimes::kCupti);
  for (int i = 0; i < 200; ++i) {
    ASSERT_EQ(launch(testing::null_kernel(1), buffer_, other_), CUDA_SUCCESS);
  }
  ASSERT_EQ(launch(testing::null_kernel(2), 1, 2), CUDA_SUCCESS);
  EXPECT_EQ(timing_events, 0);
  const TracedTimes times = recorded();
  ASSERT_EQ(times.told.size(), 201U);
  EXPECT_EQ(times.told.front(), "1/1");
  EXPECT_EQ(times.told[199], "200/1");
  EXPECT_EQ(times.told[200], "200/0");
  EXPECT_EQ(cupti_.subscribers, 0);
}

TEST_F(KernelTimesTest, WhatAStreamCapturesIsNotTimed) {
  begin(KernelTimes::kCupti);
  auto* const stream = reinterpret_cast<CUstream>(0x5550);
  ASSERT_EQ(hook::cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
  testing::set_captured_stream(stream);
  EXPECT_EQ(launch(testing::null_kernel(1), buffer_, other_, stream), CUDA_SUCCESS);
  EXPECT_EQ(launch(testing::null_kernel(1), 1, 2, stream), CUDA_SUCCESS);
  testing::set_captured_stream(nullptr);
  CUgraph graph = nullptr;
  (void)hook::cuStreamEndCapture(stream, &graph);
  EXPECT_EQ(launch(testing::null_kernel(1), buffer_, other_), CUDA_SUCCESS);
  EXPECT_EQ(driver_launches, 3U);
  EXPECT_THAT(recorded().told, ElementsAre("1/1"));
}

TEST_F(KernelTimesTest, EventsTimeThemWhereCuptiRefuses) {
  cupti_.refusals["cuptiSubscribe"] = CUPTI_ERROR_NOT_COMPATIBLE;
  ::testing::internal::CaptureStderr();
  begin(KernelTimes::kCupti);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("superpipe: SUPERPIPE_KERNEL_TIMES=cupti: cuptiSubscribe: "
                        "CUPTI_ERROR_NOT_COMPATIBLE; some kernels are timed by events instead\n"));
  ASSERT_EQ(launch(testing::null_kernel(1), buffer_, other_), CUDA_SUCCESS);
  EXPECT_GT(timing_events, 0);
  EXPECT_EQ(recorded().launches, 1);
}

TEST_F(KernelTimesTest, EventsAloneLeaveCuptiToOthers) {
  begin(KernelTimes::kEvents);
  ASSERT_EQ(launch(testing::null_kernel(1), buffer_, other_), CUDA_SUCCESS);
  EXPECT_GT(timing_events, 0);
  EXPECT_EQ(cupti_.subscribers, 0);
}

TEST_F(KernelTimesTest, OffTimesNothing) {
  begin(KernelTimes::kOff);
  ASSERT_EQ(launch(testing::null_kernel(1), buffer_, other_), CUDA_SUCCESS);
  ASSERT_EQ(launch(testing::null_kernel(1), 1, 2), CUDA_SUCCESS);
  EXPECT_EQ(timing_events, 0);
  EXPECT_EQ(cupti_.subscribers, 0);
  const TracedTimes times = recorded();
  EXPECT_EQ(times.launches, 2);
  EXPECT_THAT(times.told, IsEmpty());
}

TEST_F(KernelTimesTest, WithoutATraceNothingIsTimed) {
  is_traced_ = false;
  begin(KernelTimes::kCupti);
  ASSERT_EQ(launch(testing::null_kernel(1), buffer_, other_), CUDA_SUCCESS);
  EXPECT_EQ(timing_events, 0);
  EXPECT_EQ(cupti_.subscribers, 0);
}

TEST_F(KernelTimesTest, TheNextContextHasCuptiToo) {
  begin(KernelTimes::kCupti);
  ASSERT_EQ(launch(testing::null_kernel(1), buffer_, other_), CUDA_SUCCESS);
  EXPECT_THAT(recorded().told, ElementsAre("1/1"));
  buffer_ = allocate();
  EXPECT_EQ(cupti_.subscribers, 1);
  ASSERT_EQ(launch(testing::null_kernel(1), buffer_, buffer_), CUDA_SUCCESS);
  end_context();
  EXPECT_EQ(cupti_.forced_flushes, 2);
  EXPECT_EQ(cupti_.subscribers, 0);
}

}  // namespace
}  // namespace superpipe
