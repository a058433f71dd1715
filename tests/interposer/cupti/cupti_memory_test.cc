// Host memory runs out while launches are marked and buffers are read.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <new>
#include <string>
#include <variant>

#include "interposer/cupti/cupti_collector.h"
#include "profiler/trace_reader.h"
#include "tests/interposer/cupti/fake_cupti.h"
#include "tests/profiler/trace_examples.h"
#include "tests/residency/allocation_faults.h"

namespace superpipe::testing {
namespace {

constexpr std::uint64_t kAll = 1'000'000;

class Count : public TraceVisitor {
 public:
  void on_kernel_time(const TraceMoment& /*when*/, const TraceKernelTime& event) override {
    launches += event.launch.value;
  }
  std::uint64_t launches = 0;
};

/// The sum of the numbers of the launches that have a time, where of `launched`, 1 and then 2, the
/// first was marked, or the buffer read, while there was no memory.
std::uint64_t told_without_memory(bool at_launch, bool at_reading) {
  MemorySink sink;
  FakeCupti cupti;
  TraceRecorder recorder(sink, std::chrono::steady_clock::now(), {});
  EXPECT_EQ(recorder.begin({}), std::nullopt);
  auto started = CuptiCollector::start(FakeCupti::api(), recorder);
  const auto collector = std::get<std::unique_ptr<CuptiCollector>>(std::move(started));
  AllocationFaults& faults = AllocationFaults::mine();
  faults.first = 1;
  faults.how_many = kAll;
  for (std::uint32_t number = 1; number <= 2; ++number) {
    const LaunchMark mark(*collector, {number, KernelId{number}, true});
    const Arming arming(at_launch && number == 1 ? 1 : 0);
    cupti.launch(number);
  }
  cupti.kernel_now(1);
  cupti.kernel_now(2);
  {
    const Arming arming(at_reading ? 1 : 0);
    cupti.deliver();
  }
  collector->stop();
  EXPECT_TRUE(recorder.finish(std::chrono::steady_clock::now()));
  auto reader = TraceReader::from(std::make_unique<TraceBytesSource>(sink.bytes), "recorded");
  EXPECT_TRUE(reader.ok());
  Count count;
  EXPECT_EQ(reader->read_all(count), std::nullopt);
  EXPECT_TRUE(reader->ending().is_complete);
  return count.launches;
}

TEST(CuptiCollector, ALaunchHasNoTimeIfThereIsNoMemoryToMarkIt) {
  EXPECT_EQ(told_without_memory(false, false), 3U);
  EXPECT_EQ(told_without_memory(true, false), 2U);
}

// The trace has no ring for the thread that reads.
TEST(CuptiCollector, ABufferIsLostIfThereIsNoMemoryToTellOfIt) {
  EXPECT_EQ(told_without_memory(false, true), 0U);
}

TEST(CuptiCollector, CuptiIsFreeAgainIfThereIsNoMemoryToStart) {
  MemorySink sink;
  FakeCupti cupti;
  cupti.refusals["cuptiActivityEnable"] = CUPTI_ERROR_NOT_COMPATIBLE;
  TraceRecorder recorder(sink, std::chrono::steady_clock::now(), {});
  AllocationFaults& faults = AllocationFaults::mine();
  int failures = 0;
  for (faults.first = 1; faults.first < 100; ++faults.first) {
    faults.count = 0;
    faults.how_many = 1;
    try {
      const Arming arming(1);
      (void)CuptiCollector::start(FakeCupti::api(), recorder);
    } catch (const std::bad_alloc&) {
      ++failures;
    }
    ASSERT_EQ(cupti.subscribers, 0) << faults.first;
    const auto again = CuptiCollector::start(FakeCupti::api(), recorder);
    ASSERT_EQ(std::get<std::string>(again), "cuptiActivityEnable: CUPTI_ERROR_NOT_COMPATIBLE");
  }
  EXPECT_GT(failures, 2);
}

}  // namespace
}  // namespace superpipe::testing
