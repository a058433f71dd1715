#include "profiler/timeline_csv.h"

#include <gtest/gtest.h>

#include <chrono>

namespace superpipe {
namespace {

using Kind = TimelineEvent::Kind;
using std::chrono::microseconds;

TimelineEvent event(int us, Kind kind, std::uint32_t buffer, Bytes size = 2_MiB) {
  return {std::chrono::steady_clock::time_point(microseconds(us)), kind, BufferId{buffer}, size};
}

TEST(TimelineCsv, SortsByTimeAndCountsFromTheFirst) {
  const std::vector<TimelineEvent> events = {
      event(5000, Kind::kLaunch, 7),
      event(5250, Kind::kEvictBegin, 7),
      event(5100, Kind::kFetchEnd, 7),
  };
  EXPECT_EQ(timeline_csv(events, {2_MiB}),
            "time_ms,event,buffer,layer,bytes\n"
            "0.0000,launch,7,0,2097152\n"
            "0.1000,fetch_end,7,0,2097152\n"
            "0.2500,evict_begin,7,0,2097152\n");
}

TEST(TimelineCsv, LeavesOutTheLayerOfWhatNeverMoved) {
  const std::vector<TimelineEvent> events = {event(0, Kind::kLaunch, 1), event(0, Kind::kLaunch, 2),
                                             event(1000, Kind::kEvictBegin, 2)};
  EXPECT_EQ(timeline_csv(events, {2_MiB}),
            "time_ms,event,buffer,layer,bytes\n"
            "0.0000,launch,1,,2097152\n"
            "0.0000,launch,2,0,2097152\n"
            "1.0000,evict_begin,2,0,2097152\n");
}

std::string two_buffers(const std::vector<Bytes>& layer_bytes) {
  const std::vector<TimelineEvent> events = {event(0, Kind::kLaunch, 4), event(0, Kind::kLaunch, 3),
                                             event(0, Kind::kEvictBegin, 3),
                                             event(0, Kind::kEvictBegin, 4)};
  return timeline_csv(events, layer_bytes);
}

TEST(TimelineCsv, GroupsBuffersIntoTheLayersThatWereLearned) {
  EXPECT_NE(two_buffers({4_MiB}).find("launch,4,0,"), std::string::npos);
  EXPECT_NE(two_buffers({4_MiB}).find("launch,3,0,"), std::string::npos);
}

TEST(TimelineCsv, GivesEachBufferItsRowWhereTheyDoNotAddUp) {
  for (const auto& layer_bytes : {std::vector<Bytes>{3_MiB}, {}, {2_MiB}, {2_MiB, 2_MiB, 2_MiB}}) {
    EXPECT_NE(two_buffers(layer_bytes).find("launch,4,0,"), std::string::npos);
    EXPECT_NE(two_buffers(layer_bytes).find("launch,3,1,"), std::string::npos);
  }
}

TEST(TimelineCsv, IsOnlyAHeaderWhereNothingHappened) {
  EXPECT_EQ(timeline_csv({}, {}), "time_ms,event,buffer,layer,bytes\n");
}

}  // namespace
}  // namespace superpipe
