// The time from one start of a pass to the next, by a clock that the test sets.
#include "profiler/pass_meter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

namespace superpipe::testing {
namespace {

using ::testing::DoubleEq;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class PassMeterTest : public ::testing::Test {
 protected:
  CompletionRef start() {
    auto start = std::make_shared<Completion>();
    meter_.note_start(start, launch_ += 10);
    return start;
  }
  static void reach(const CompletionRef& start) { start->complete = true; }
  bool settle(int now_ms, const std::vector<CompletionRef>& lost = {}) {
    return meter_.settle(PassMeter::TimePoint{std::chrono::milliseconds{now_ms}}, lost);
  }

  /// A launch stalls until `now_ms`, from `asked_ms` on.
  void stall(int asked_ms, int now_ms) {
    const auto at = [](int ms) { return StallMeter::TimePoint{std::chrono::milliseconds{ms}}; };
    const auto stream_end = std::make_shared<Completion>();
    stream_end->complete = true;
    const StallMeter::ProbeRef probe = stalls_.open(at(asked_ms), stream_end);
    (void)stalls_.settle(at(asked_ms), {});
    probe->submitted(at(now_ms));
    (void)stalls_.settle(at(now_ms), {});
  }
  [[nodiscard]] std::vector<double> pass_ms() const {
    std::vector<double> lengths;
    for (const MeasuredPass& pass : meter_.passes()) lengths.push_back(pass.ms);
    return lengths;
  }

  StallMeter stalls_;
  PassMeter meter_{stalls_};
  std::uint64_t launch_ = 0;
};

TEST_F(PassMeterTest, MeasuresFromOneStartToTheNext) {
  reach(start());
  EXPECT_TRUE(settle(10));
  EXPECT_THAT(pass_ms(), IsEmpty()) << "the first pass has only begun";
  reach(start());
  EXPECT_TRUE(settle(17));
  reach(start());
  EXPECT_TRUE(settle(20));
  EXPECT_THAT(pass_ms(), ElementsAre(DoubleEq(7), DoubleEq(3)));
}

TEST_F(PassMeterTest, MeasuresNothingBeforeTheDeviceIsThere) {
  const CompletionRef first = start();
  const CompletionRef second = start();
  EXPECT_FALSE(settle(5)) << "the host is two passes ahead";
  reach(first);
  EXPECT_TRUE(settle(6));
  EXPECT_FALSE(settle(8));
  reach(second);
  EXPECT_TRUE(settle(9));
  EXPECT_THAT(pass_ms(), ElementsAre(DoubleEq(3)));
}

TEST_F(PassMeterTest, TakesTheStartsInTheirOrder) {
  const CompletionRef first = start();
  const CompletionRef second = start();
  reach(second);
  EXPECT_FALSE(settle(3)) << "the first start must have been reached as well, but nobody knows";
  reach(first);
  EXPECT_TRUE(settle(4));
  EXPECT_THAT(pass_ms(), ElementsAre(DoubleEq(0))) << "both were seen at once";
}

TEST_F(PassMeterTest, AwaitsTheNextStartOnly) {
  EXPECT_FALSE(meter_.is_waiting());
  EXPECT_THAT(meter_.awaited(), IsEmpty());
  const CompletionRef first = start();
  const CompletionRef second = start();
  EXPECT_TRUE(meter_.is_waiting());
  EXPECT_THAT(meter_.awaited(), ElementsAre(first));
  reach(first);
  EXPECT_TRUE(settle(1));
  EXPECT_THAT(meter_.awaited(), ElementsAre(second));
}

TEST_F(PassMeterTest, JoinsAPassWhoseStartIsLostWithTheOneBefore) {
  reach(start());
  EXPECT_TRUE(settle(10));
  const CompletionRef lost = start();
  const CompletionRef next = start();
  EXPECT_TRUE(settle(14, {lost}));
  EXPECT_THAT(pass_ms(), IsEmpty());
  EXPECT_THAT(meter_.awaited(), ElementsAre(next));
  reach(next);
  EXPECT_TRUE(settle(19));
  EXPECT_THAT(pass_ms(), ElementsAre(DoubleEq(9)));
}

TEST_F(PassMeterTest, TellsTheStallsAndTheLaunchesOfEachPass) {
  stall(0, 4);
  reach(start());
  EXPECT_TRUE(settle(10));
  stall(10, 12);
  stall(13, 16);
  reach(start());
  EXPECT_TRUE(settle(17));
  reach(start());
  EXPECT_TRUE(settle(20));
  EXPECT_THAT(meter_.passes(), ElementsAre(MeasuredPass{7, 5, 10, 20}, MeasuredPass{3, 0, 20, 30}));
}

TEST_F(PassMeterTest, KeepsTheLastPassesOfALongRun) {
  constexpr int kPasses = 40'000;
  for (int i = 0; i <= kPasses; ++i) {
    reach(start());
    EXPECT_TRUE(settle(i));
  }
  EXPECT_EQ(meter_.count(), static_cast<std::uint64_t>(kPasses));
  EXPECT_GE(meter_.passes().size(), PassMeter::kKept);
  EXPECT_LE(meter_.passes().size(), 2 * PassMeter::kKept);
  const MeasuredPass& last = meter_.passes().back();
  const MeasuredPass& first = meter_.passes().front();
  EXPECT_EQ((last.end - first.begin) % meter_.passes().size(), 0u) << "without gaps";
}

TEST_F(PassMeterTest, ForgetsTheStartsThatItAwaitsButNoPass) {
  reach(start());
  EXPECT_TRUE(settle(1));
  reach(start());
  EXPECT_TRUE(settle(5));
  start();
  meter_.clear();
  EXPECT_FALSE(meter_.is_waiting());
  EXPECT_THAT(meter_.awaited(), IsEmpty());
  EXPECT_THAT(pass_ms(), ElementsAre(DoubleEq(4)));
}

}  // namespace
}  // namespace superpipe::testing
