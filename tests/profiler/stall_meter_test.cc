// How long launches waited for their fetches, by a clock that the test sets.
#include "profiler/stall_meter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <vector>

namespace superpipe::testing {
namespace {

using ::testing::Contains;
using ::testing::IsEmpty;
using ::testing::Le;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

class StallMeterTest : public ::testing::Test {
 protected:
  static StallMeter::TimePoint at(int ms) {
    return StallMeter::TimePoint{std::chrono::milliseconds{ms}};
  }
  static CompletionRef completion() { return std::make_shared<Completion>(); }
  static void complete(const CompletionRef& completion) { completion->complete = true; }

  /// A launch that asked at `asked` and was submitted then, waiting for `fetches`.
  void launch(int asked, const CompletionRef& stream_end,
              const std::vector<CompletionRef>& fetches) {
    const auto probe = meter_.open(at(asked), stream_end);
    probe->add_fetches(fetches);
    probe->submitted(at(asked));
  }
  bool settle(int now, const std::vector<CompletionRef>& lost = {}) {
    return meter_.settle(at(now), lost);
  }

  StallMeter meter_;
  const CompletionRef stream_end_ = completion();
  const CompletionRef fetch_ = completion();
};

TEST_F(StallMeterTest, MeasuresFromTheStreamsEndToTheFetchs) {
  launch(1, stream_end_, {fetch_});
  complete(stream_end_);
  EXPECT_FALSE(settle(3));
  EXPECT_DOUBLE_EQ(meter_.stall_ms(), 0);
  complete(fetch_);
  EXPECT_TRUE(settle(8));
  EXPECT_DOUBLE_EQ(meter_.stall_ms(), 5);
  EXPECT_FALSE(meter_.is_waiting());
}

TEST_F(StallMeterTest, AsksAboutFewLaunchesHoweverFarTheHostIsAhead) {
  std::vector<CompletionRef> ends;
  for (int i = 0; i < 1000; ++i) {
    ends.push_back(completion());
    launch(i, ends.back(), {completion(), completion()});
  }
  EXPECT_THAT(meter_.awaited(), SizeIs(Le(16U)));
  EXPECT_THAT(meter_.awaited(), Contains(ends.front())) << "the oldest ends first";
}

TEST_F(StallMeterTest, MeasuresFromWhenTheBuffersWereAskedForIfTheStreamWasReadyBefore) {
  const auto probe = meter_.open(at(6), stream_end_);
  complete(stream_end_);
  EXPECT_FALSE(settle(2)) << "seen before the launch asked";
  probe->add_fetches(std::vector{fetch_});
  probe->submitted(at(6));
  complete(fetch_);
  EXPECT_TRUE(settle(8));
  EXPECT_DOUBLE_EQ(meter_.stall_ms(), 2);
}

TEST_F(StallMeterTest, FindsNoStallWhenTheFetchEndsBeforeTheStreamIsReady) {
  launch(1, stream_end_, {fetch_});
  complete(fetch_);
  EXPECT_TRUE(settle(4));
  EXPECT_FALSE(meter_.is_waiting()) << "whenever the stream gets ready, it need not wait";
  complete(stream_end_);
  EXPECT_FALSE(settle(9));
  EXPECT_DOUBLE_EQ(meter_.stall_ms(), 0);
}

TEST_F(StallMeterTest, WaitsForTheLastOfAllFetches) {
  const CompletionRef second = completion();
  const auto probe = meter_.open(at(0), stream_end_);
  probe->add_fetches(std::vector{fetch_});
  probe->add_fetches(std::vector{second});
  probe->submitted(at(0));
  complete(stream_end_);
  EXPECT_FALSE(settle(1));
  complete(second);
  EXPECT_FALSE(settle(5)) << "the first fetch still runs";
  complete(fetch_);
  EXPECT_TRUE(settle(7));
  EXPECT_DOUBLE_EQ(meter_.stall_ms(), 6);
}

TEST_F(StallMeterTest, KeepsALaunchOpenThatMayStillAddFetches) {
  const auto probe = meter_.open(at(0), stream_end_);
  complete(stream_end_);
  EXPECT_FALSE(settle(1));
  EXPECT_TRUE(meter_.is_waiting());
  probe->add_fetches(std::vector{fetch_});
  complete(fetch_);
  EXPECT_FALSE(settle(2)) << "it was not submitted";
  probe->submitted(at(3));
  EXPECT_TRUE(settle(4));
}

TEST_F(StallMeterTest, CountsTheTimeOfALaunchWhoseFetchesEndedBeforeItsSubmission) {
  const auto probe = meter_.open(at(0), stream_end_);
  complete(stream_end_);
  EXPECT_FALSE(settle(1));
  probe->submitted(at(5));
  EXPECT_TRUE(settle(9));
  EXPECT_DOUBLE_EQ(meter_.stall_ms(), 4) << "from when the stream was ready to the submission";
}

TEST_F(StallMeterTest, AddsUpTheStallsOfAllLaunches) {
  const CompletionRef other_end = completion();
  const CompletionRef other_fetch = completion();
  launch(0, stream_end_, {fetch_});
  launch(0, other_end, {other_fetch});
  complete(stream_end_);
  complete(other_end);
  EXPECT_FALSE(settle(1));
  complete(other_fetch);
  EXPECT_TRUE(settle(3));
  EXPECT_DOUBLE_EQ(meter_.stall_ms(), 2);
  complete(fetch_);
  EXPECT_TRUE(settle(6));
  EXPECT_DOUBLE_EQ(meter_.stall_ms(), 7);
}

TEST_F(StallMeterTest, AwaitsFetchesOnlyOfSubmittedLaunches) {
  EXPECT_THAT(meter_.awaited(), IsEmpty());
  const auto probe = meter_.open(at(0), stream_end_);
  probe->add_fetches(std::vector{fetch_});
  EXPECT_THAT(meter_.awaited(), UnorderedElementsAre(stream_end_));
  probe->submitted(at(1));
  EXPECT_THAT(meter_.awaited(), UnorderedElementsAre(stream_end_, fetch_));
  complete(stream_end_);
  EXPECT_FALSE(settle(2));
  EXPECT_THAT(meter_.awaited(), UnorderedElementsAre(fetch_)) << "its stream's end is known";
}

TEST_F(StallMeterTest, MeasuresNoLaunchWhoseStreamsEndIsLost) {
  launch(0, stream_end_, {fetch_});
  EXPECT_TRUE(settle(1, {stream_end_}));
  EXPECT_FALSE(meter_.is_waiting());
  complete(fetch_);
  EXPECT_FALSE(settle(9));
  EXPECT_DOUBLE_EQ(meter_.stall_ms(), 0);
}

TEST_F(StallMeterTest, MeasuresNoLaunchWithALostFetchAndAllTheOthers) {
  const CompletionRef lost = completion();
  launch(0, stream_end_, {lost, fetch_});
  launch(0, stream_end_, {fetch_});
  complete(stream_end_);
  EXPECT_TRUE(settle(1, {lost}));
  EXPECT_TRUE(meter_.is_waiting()) << "the second launch has lost nothing";
  complete(fetch_);
  EXPECT_TRUE(settle(4));
  EXPECT_DOUBLE_EQ(meter_.stall_ms(), 3);
}

TEST_F(StallMeterTest, ForgetsTheLaunchesUnderWayButNotWhatItHasMeasured) {
  launch(0, stream_end_, {fetch_});
  complete(stream_end_);
  EXPECT_FALSE(settle(1));
  launch(1, stream_end_, {completion()});
  complete(fetch_);
  EXPECT_TRUE(settle(3));
  meter_.clear();
  EXPECT_FALSE(meter_.is_waiting());
  EXPECT_THAT(meter_.awaited(), IsEmpty());
  EXPECT_DOUBLE_EQ(meter_.stall_ms(), 2);
}

}  // namespace
}  // namespace superpipe::testing
