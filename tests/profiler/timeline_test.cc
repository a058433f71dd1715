// What a timeline makes of events that have happened, and of those to come.
#include "profiler/timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace superpipe::testing {
namespace {

using Kind = TimelineEvent::Kind;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

Timeline::TimePoint at(int ms) { return Timeline::TimePoint{std::chrono::milliseconds{ms}}; }

MATCHER_P3(Happened, kind, time_ms, buffer, "") {
  return arg.kind == kind && arg.time == at(time_ms) && arg.buffer == BufferId{buffer};
}

class EventTimelineTest : public ::testing::Test {
 protected:
  void add(Kind kind, int time, std::uint32_t buffer) {
    timeline_.add(kind, at(time), BufferId{buffer}, 4_KiB);
  }
  CompletionRef add_pending(Kind kind, int time, std::uint32_t buffer) {
    auto done = std::make_shared<Completion>();
    timeline_.add_when(done, kind, at(time), BufferId{buffer}, 4_KiB);
    return done;
  }
  bool settle(int now, const std::vector<CompletionRef>& lost = {}) {
    return timeline_.settle(at(now), lost);
  }
  static void complete(const CompletionRef& completion) { completion->complete = true; }

  Timeline timeline_;
};

TEST_F(EventTimelineTest, KeepsWhatHappenedInTheOrderInWhichItWasTold) {
  timeline_.add(Kind::kLaunch, at(5), BufferId{2}, 8_KiB);
  add(Kind::kEvictBegin, 3, 1);
  EXPECT_THAT(timeline_.events(),
              ElementsAre(Happened(Kind::kLaunch, 5, 2U), Happened(Kind::kEvictBegin, 3, 1U)));
  EXPECT_EQ(timeline_.events().front().size, 8_KiB);
}

TEST_F(EventTimelineTest, DatesAnEventByWhenItsCompletionWasSeen) {
  const CompletionRef done = add_pending(Kind::kFetchEnd, 1, 7);
  EXPECT_THAT(timeline_.events(), IsEmpty());
  EXPECT_TRUE(timeline_.is_waiting());
  EXPECT_FALSE(settle(2));
  complete(done);
  EXPECT_TRUE(settle(4));
  EXPECT_THAT(timeline_.events(), ElementsAre(Happened(Kind::kFetchEnd, 4, 7U)));
  EXPECT_FALSE(timeline_.is_waiting());
  EXPECT_FALSE(settle(5)) << "it happens once";
}

TEST_F(EventTimelineTest, TakesAnEventWithoutCompletionAsHappened) {
  timeline_.add_when(nullptr, Kind::kFetchBegin, at(3), BufferId{7}, 4_KiB);
  EXPECT_THAT(timeline_.events(), ElementsAre(Happened(Kind::kFetchBegin, 3, 7U)));
  EXPECT_FALSE(timeline_.is_waiting());
}

TEST_F(EventTimelineTest, AwaitsTheCompletionsOfAllThatIsToCome) {
  EXPECT_THAT(timeline_.awaited(), IsEmpty());
  const CompletionRef first = add_pending(Kind::kEvictEnd, 1, 1);
  const CompletionRef second = add_pending(Kind::kFetchEnd, 1, 2);
  EXPECT_THAT(timeline_.awaited(), ElementsAre(first, second));
  complete(first);
  EXPECT_TRUE(settle(2));
  EXPECT_THAT(timeline_.awaited(), ElementsAre(second));
}

TEST_F(EventTimelineTest, KeepsTheOrderOfEventsThatAreSeenAtOnce) {
  const CompletionRef begin = add_pending(Kind::kFetchBegin, 1, 7);
  const CompletionRef end = add_pending(Kind::kFetchEnd, 1, 7);
  complete(end);
  complete(begin);
  EXPECT_TRUE(settle(4));
  EXPECT_THAT(timeline_.events(),
              ElementsAre(Happened(Kind::kFetchBegin, 4, 7U), Happened(Kind::kFetchEnd, 4, 7U)));
}

TEST_F(EventTimelineTest, DropsWhatWaitsForALostCompletion) {
  const CompletionRef lost = add_pending(Kind::kFetchEnd, 1, 1);
  const CompletionRef other = add_pending(Kind::kFetchEnd, 1, 2);
  EXPECT_FALSE(settle(2, {lost})) << "nothing happened";
  EXPECT_THAT(timeline_.awaited(), ElementsAre(other));
  complete(other);
  EXPECT_TRUE(settle(3));
  EXPECT_THAT(timeline_.events(), ElementsAre(Happened(Kind::kFetchEnd, 3, 2U)));
}

TEST_F(EventTimelineTest, KnowsThatAllHasHappenedToABufferThatIsInPlace) {
  add_pending(Kind::kFetchBegin, 1, 7);
  add_pending(Kind::kFetchEnd, 2, 7);
  const CompletionRef other = add_pending(Kind::kFetchEnd, 2, 8);
  timeline_.note_arrival(BufferId{7}, at(5));
  EXPECT_THAT(timeline_.events(),
              ElementsAre(Happened(Kind::kFetchBegin, 5, 7U), Happened(Kind::kFetchEnd, 5, 7U)));
  EXPECT_THAT(timeline_.awaited(), ElementsAre(other)) << "nobody said so of the other buffer";
}

// A page goes from one buffer to the next: the first one's eviction ends when the fetch begins.
TEST_F(EventTimelineTest, KnowsThatWhatHadToHappenBeforeToAnotherBufferHas) {
  const auto vacated = std::make_shared<Completion>();
  timeline_.add_when(vacated, Kind::kEvictEnd, at(1), BufferId{3}, 4_KiB);
  timeline_.add_when(vacated, Kind::kFetchBegin, at(1), BufferId{7}, 4_KiB);
  timeline_.note_arrival(BufferId{7}, at(5));
  EXPECT_THAT(timeline_.events(),
              ElementsAre(Happened(Kind::kEvictEnd, 5, 3U), Happened(Kind::kFetchBegin, 5, 7U)));
  EXPECT_FALSE(timeline_.is_waiting());
}

TEST_F(EventTimelineTest, IsBounded) {
  constexpr std::size_t kMany = std::size_t{1} << 20;
  for (std::size_t i = 0; i < kMany; ++i) add(Kind::kLaunch, 1, 1);
  const std::size_t bound = timeline_.events().size();
  EXPECT_LT(bound, kMany);
  add_pending(Kind::kFetchEnd, 1, 1);
  EXPECT_FALSE(timeline_.is_waiting()) << "there will be no place for it";
  add(Kind::kLaunch, 1, 1);
  EXPECT_EQ(timeline_.events().size(), bound);
}

}  // namespace
}  // namespace superpipe::testing
