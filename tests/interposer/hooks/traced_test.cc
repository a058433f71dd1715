// What hooks tell a trace is what happened when it happened.
#include "interposer/hooks/traced.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "profiler/trace_reader.h"
#include "tests/interposer/managed_fixture.h"
#include "tests/temporary_folder.h"

namespace superpipe {
namespace {

auto* const kCapturable = reinterpret_cast<CUstream>(0x5550);
auto* const kAnyKernel = reinterpret_cast<CUfunction>(0x1000);

/// How long calls of the driver take in the tests that want it.
constexpr std::chrono::nanoseconds kWait = std::chrono::milliseconds(20);

/// The names of the events, but for those that superpipe's own worker adds, and of the marks.
class Names : public TraceVisitor {
 public:
  void on_text(const TraceText& event) override { texts.emplace_back(event.text); }
  void on_launch(const TraceMoment&, const TraceLaunch& event) override {
    events.push_back("launch of " + std::to_string(event.buffers.size()));
  }
  void on_free(const TraceMoment&, const TraceFree&) override { events.emplace_back("free"); }
  void on_wait(const TraceMoment&, const TraceWait& event) override {
    if (event.duration_ns >= static_cast<std::uint64_t>(kWait.count())) {
      events.push_back("wait " + std::to_string(event.what));
    }
  }
  void on_mark(const TraceMoment&, const TraceMark& event) override {
    events.push_back(texts.at(event.text - 1));
  }
  std::vector<std::string> texts;
  std::vector<std::string> events;
};

/// Whether the events are these, beside waits of other kinds: the machine may stop for a while
/// anywhere.
MATCHER_P(AreBesideOtherWaits, expected, "") {
  std::size_t met = 0;
  for (const std::string& event : arg) {
    if (met < expected.size() && event == expected[met]) {
      ++met;
    } else if (event.rfind("wait", 0) != 0) {
      return false;
    }
  }
  return met == expected.size();
}

class TracedTest : public testing::ManagedFixture {
 protected:
  void configure(Configuration& configuration) override {
    folder_ = make_temporary_folder("traced_test");
    configuration.trace_file = folder_ / "run.sptrace";
  }
  ~TracedTest() override { std::filesystem::remove_all(folder_); }

  static void begin_capture() {
    ASSERT_EQ(hook::cuStreamBeginCapture_v2(kCapturable, CU_STREAM_CAPTURE_MODE_GLOBAL),
              CUDA_SUCCESS);
    testing::set_captured_stream(kCapturable);
  }
  void TearDown() override {
    testing::set_captured_stream(nullptr);
    CUgraph graph = nullptr;
    (void)hook::cuStreamEndCapture(kCapturable, &graph);
    ManagedFixture::TearDown();
  }
  /// What was recorded until now; nothing is from here on.
  [[nodiscard]] std::vector<std::string> recorded() const {
    ContextRegistry::managed()->finish_trace();
    auto reader = TraceReader::open(folder_ / "run.sptrace");
    EXPECT_TRUE(reader.ok());
    Names names;
    EXPECT_EQ(reader->read_all(names), std::nullopt);
    return names.events;
  }

  std::filesystem::path folder_;
};

TEST_F(TracedTest, LaunchesAreRecorded) {
  EXPECT_EQ(launch(kAnyKernel, buffer_, other_, kCapturable), CUDA_SUCCESS);
  EXPECT_EQ(launch(kAnyKernel, 1, 2, kCapturable), CUDA_SUCCESS);
  const std::vector<std::string> expected{"launch of 2", "launch of 0"};
  EXPECT_THAT(recorded(), AreBesideOtherWaits(expected));
}

TEST_F(TracedTest, LaunchesThatTheDriverHoldsUpAreWaits) {
  driver().cuLaunchKernel = [](auto...) {
    std::this_thread::sleep_for(kWait);
    return CUDA_SUCCESS;
  };
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(launch(kAnyKernel, buffer_, other_, kCapturable), CUDA_SUCCESS);
  }
  EXPECT_EQ(launch(kAnyKernel, 1, 2, kCapturable), CUDA_SUCCESS);
  const std::vector<std::string> expected{"launch of 2", "wait 0",      "launch of 2",
                                          "wait 0",      "launch of 0", "wait 0"};
  EXPECT_THAT(recorded(), AreBesideOtherWaits(expected));
}

TEST_F(TracedTest, SmallAllocationsAndFreesThatTheDriverHoldsUpAreWaits) {
  driver().cuMemAllocAsync = [](CUdeviceptr* address, std::size_t, CUstream) {
    std::this_thread::sleep_for(kWait);
    *address = 0x4200'0000;
    return CUDA_SUCCESS;
  };
  driver().cuMemFreeAsync = [](CUdeviceptr, CUstream) {
    std::this_thread::sleep_for(kWait);
    return CUDA_SUCCESS;
  };
  EXPECT_EQ(launch(kAnyKernel, 1, 2, kCapturable), CUDA_SUCCESS);
  CUdeviceptr small = 0;
  EXPECT_EQ(hook::cuMemAllocAsync(&small, 1, kCapturable), CUDA_SUCCESS);
  EXPECT_EQ(launch(kAnyKernel, 1, 2, kCapturable), CUDA_SUCCESS);
  EXPECT_EQ(hook::cuMemFreeAsync(small, kCapturable), CUDA_SUCCESS);
  const std::vector<std::string> expected{"launch of 0", "wait 0", "launch of 0", "free", "wait 0"};
  EXPECT_THAT(recorded(), AreBesideOtherWaits(expected));
}

TEST_F(TracedTest, ArraysAndPagesThatTheDriverHoldsUpAreWaits) {
  driver().cuArrayCreate_v2 = [](CUarray*, const CUDA_ARRAY_DESCRIPTOR*) {
    std::this_thread::sleep_for(kWait);
    return CUDA_SUCCESS;
  };
  driver().cuMemCreate = [](CUmemGenericAllocationHandle*, std::size_t, const CUmemAllocationProp*,
                            unsigned long long) {
    std::this_thread::sleep_for(kWait);
    return CUDA_SUCCESS;
  };
  EXPECT_EQ(launch(kAnyKernel, 1, 2, kCapturable), CUDA_SUCCESS);
  CUarray array = nullptr;
  const CUDA_ARRAY_DESCRIPTOR row{
      .Width = 64, .Height = 0, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};
  EXPECT_EQ(hook::cuArrayCreate_v2(&array, &row), CUDA_SUCCESS);
  EXPECT_EQ(launch(kAnyKernel, 1, 2, kCapturable), CUDA_SUCCESS);
  CUmemGenericAllocationHandle pages = 0;
  CUmemAllocationProp kind{};
  kind.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = ContextRegistry::managed()->device()};
  EXPECT_EQ(hook::cuMemCreate(&pages, 2'097'152, &kind, 0), CUDA_SUCCESS);
  const std::vector<std::string> expected{"launch of 0", "wait 0", "launch of 0", "wait 0"};
  EXPECT_THAT(recorded(), AreBesideOtherWaits(expected));
}

TEST_F(TracedTest, WhatIsCapturedIsNoLaunch) {
  begin_capture();
  EXPECT_EQ(launch(kAnyKernel, buffer_, other_, kCapturable), CUDA_SUCCESS);
  EXPECT_EQ(launch(kAnyKernel, 1, 2, kCapturable), CUDA_SUCCESS);
  EXPECT_THAT(recorded(), AreBesideOtherWaits(std::vector<std::string>{}));
}

TEST_F(TracedTest, LaunchesOfGraphsAreMarked) {
  driver().cuGraphLaunch = [](CUgraphExec, CUstream) { return CUDA_SUCCESS; };
  EXPECT_EQ(hook::cuGraphLaunch(nullptr, kCapturable), CUDA_SUCCESS);
  begin_capture();
  EXPECT_EQ(hook::cuGraphLaunch(nullptr, kCapturable), CUDA_SUCCESS);  // a part of another graph
  const std::vector<std::string> expected{std::string(kTraceGraphLaunch)};
  EXPECT_THAT(recorded(), AreBesideOtherWaits(expected));
}

// An allocation that finds no room is answered with an error that programs know.
TEST_F(TracedTest, OperationsThatFindNoRoomAreMarked) {
  ManagedContext& managed = *ContextRegistry::managed();
  (void)managed.failure(Status::kOutOfDeviceMemory, CallKind::kAllocation);
  (void)managed.failure(Status::kDeviceError, CallKind::kSubmission);
  (void)managed.failure(Status::kWorkingSetTooLarge, CallKind::kSubmission);
  const std::vector<std::string> expected{std::string(kTraceRefusal)};
  EXPECT_THAT(recorded(), AreBesideOtherWaits(expected));
}

TEST_F(TracedTest, AFreeInACapturedStreamHappensLater) {
  driver().cuMemFreeAsync = [](CUdeviceptr, CUstream) { return CUDA_SUCCESS; };
  constexpr CUdeviceptr kOfTheDriver = 0x4200'0000;
  EXPECT_EQ(hook::cuMemFreeAsync(kOfTheDriver, kCapturable), CUDA_SUCCESS);
  begin_capture();
  EXPECT_EQ(hook::cuMemFreeAsync(kOfTheDriver, kCapturable), CUDA_SUCCESS);
  const std::vector<std::string> expected{"free"};
  EXPECT_THAT(recorded(), AreBesideOtherWaits(expected));
}

}  // namespace
}  // namespace superpipe
