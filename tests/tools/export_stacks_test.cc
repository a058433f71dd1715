#include "tools/superpipe/export_stacks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/tools/export_testing.h"

namespace superpipe::cli {
namespace {

std::string told(StackWeight weight, const std::vector<TraceAllocation>& events) {
  TextSink sink;
  CollapsedWriter writer(sink, weight);
  writer.on_call_site({1, "a a.so+0x1"});
  writer.on_call_site({2, "b;\nmain a.so+0x2"});
  for (const TraceAllocation& event : events) {
    if (event.size > Bytes{}) {
      writer.on_allocation({}, event);
    } else {
      writer.on_free({}, {event.buffer, 0, 0});
    }
  }
  writer.finish();
  return sink.text;
}

TraceAllocation allocation(std::uint32_t buffer, std::uint64_t size, TraceIndex site) {
  return {BufferId{buffer}, 0, Bytes{size}, Bytes{}, 0, site};
}

TEST(CollapsedWriter, TellsThePeakAndNotTheEnd) {
  // The peak is 70 from a and 40 from b; then a falls, and b grows by less.
  const std::vector<TraceAllocation> events = {
      allocation(1, 70, 1), allocation(2, 30, 2), allocation(2, 0, 0), allocation(3, 40, 2),
      allocation(1, 0, 0),  allocation(4, 60, 2), allocation(5, 5, 1)};
  EXPECT_EQ(told(StackWeight::kPeak, events), "a 70\nmain;b: 40\n");
  EXPECT_EQ(told(StackWeight::kAllocated, events), "main;b: 130\na 75\n");
}

TEST(CollapsedWriter, PutsWhatHasNoCallSiteTogether) {
  EXPECT_EQ(told(StackWeight::kAllocated, {allocation(1, 5, 8), allocation(2, 6, 9)}),
            "call site not known 11\n");
}

TEST(CollapsedWriter, TellsStallsByKernel) {
  TextSink sink;
  CollapsedWriter writer(sink, StackWeight::kStalls);
  writer.on_kernel({1, 1, "gemm"});
  writer.on_stream({1, 16});
  writer.on_launch({}, {{5}, 1, 1, {}});
  writer.on_stall({}, {{5}, 100, 30});
  writer.on_stall({}, {{5}, 200, 12});
  writer.on_stall({}, {{6}, 300, 1});
  writer.on_stall({}, {{0}, 300, 7});
  writer.finish();
  EXPECT_EQ(sink.text,
            "stream 0x10;gemm 42\n(memset, or copy on the device) 7\n"
            "unknown stream;unknown kernel 1\n");
}

TEST(CollapsedWriter, TellsWaitsByThread) {
  TextSink sink;
  CollapsedWriter writer(sink, StackWeight::kWaits);
  writer.on_thread({1, 77});
  writer.on_wait({0, 1}, {TraceWait::kDevice, 30'000});
  writer.on_wait({0, 1}, {TraceWait::kDevice, 20'000});
  writer.on_wait({0, 1}, {TraceWait::kLaunch, 25'000});
  writer.on_wait({0, 2}, {99, 21'000});
  writer.finish();
  EXPECT_EQ(sink.text,
            "thread 77;waits for the device 50000\nthread 77;an operation waits 25000\n"
            "threads not known;waits 21000\n");
}

TEST(StackWeight, HasANameEach) {
  for (const StackWeight weight : kStackWeights) {
    EXPECT_EQ(stack_weight_named(name_of(weight)), weight);
  }
  EXPECT_FALSE(stack_weight_named("deep"));
}

}  // namespace
}  // namespace superpipe::cli
