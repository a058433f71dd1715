// The time from one start of a pass to the next, by a clock that the test sets.
#include "profiler/pass_meter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
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
    meter_.note_start(start);
    return start;
  }
  static void reach(const CompletionRef& start) { start->complete = true; }
  bool settle(int now_ms, const std::vector<CompletionRef>& lost = {}) {
    return meter_.settle(PassMeter::TimePoint{std::chrono::milliseconds{now_ms}}, lost);
  }

  PassMeter meter_;
};

TEST_F(PassMeterTest, MeasuresFromOneStartToTheNext) {
  reach(start());
  EXPECT_TRUE(settle(10));
  EXPECT_THAT(meter_.pass_ms(), IsEmpty()) << "the first pass has only begun";
  reach(start());
  EXPECT_TRUE(settle(17));
  reach(start());
  EXPECT_TRUE(settle(20));
  EXPECT_THAT(meter_.pass_ms(), ElementsAre(DoubleEq(7), DoubleEq(3)));
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
  EXPECT_THAT(meter_.pass_ms(), ElementsAre(DoubleEq(3)));
}

TEST_F(PassMeterTest, TakesTheStartsInTheirOrder) {
  const CompletionRef first = start();
  const CompletionRef second = start();
  reach(second);
  EXPECT_FALSE(settle(3)) << "the first start must have been reached as well, but nobody knows";
  reach(first);
  EXPECT_TRUE(settle(4));
  EXPECT_THAT(meter_.pass_ms(), ElementsAre(DoubleEq(0))) << "both were seen at once";
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
  EXPECT_THAT(meter_.pass_ms(), IsEmpty());
  EXPECT_THAT(meter_.awaited(), ElementsAre(next));
  reach(next);
  EXPECT_TRUE(settle(19));
  EXPECT_THAT(meter_.pass_ms(), ElementsAre(DoubleEq(9)));
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
  EXPECT_THAT(meter_.pass_ms(), ElementsAre(DoubleEq(4)));
}

}  // namespace
}  // namespace superpipe::testing
