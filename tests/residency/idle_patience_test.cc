// How long pinned host memory may lie idle.
#include "residency/host/idle_patience.h"

#include <gtest/gtest.h>

#include <chrono>

namespace superpipe::testing {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr IdlePatience::Clock::time_point kStart{hours{1}};

TEST(IdlePatience, LearnsNothingFromASlabThatWasTakenInTime) {
  IdlePatience patience;
  EXPECT_EQ(patience.length(), IdlePatience::kShortest);
  patience.note_asked_for(seconds{29});
  EXPECT_EQ(patience.length(), IdlePatience::kShortest);
}

TEST(IdlePatience, LearnsFromASlabThatOnlyABusyDeviceHasKept) {
  IdlePatience patience;
  patience.note_asked_for(seconds{40});
  EXPECT_EQ(patience.length(), seconds{80});
  patience.note_asked_for(seconds{70});
  EXPECT_EQ(patience.length(), seconds{80}) << "it was not to be unpinned yet";
  patience.note_asked_for(seconds{100});
  EXPECT_EQ(patience.length(), seconds{200});
}

TEST(IdlePatience, LearnsFromWhatWasUnpinnedInVain) {
  IdlePatience patience;
  patience.note_unpinned(4_KiB, kStart);
  patience.note_missing(8_KiB, kStart + minutes{4});
  EXPECT_EQ(patience.length(), IdlePatience::kShortest) << "of another size";
  patience.note_missing(4_KiB, kStart + minutes{4});
  EXPECT_EQ(patience.length(), minutes{8});
  patience.note_missing(4_KiB, kStart + minutes{9});
  EXPECT_EQ(patience.length(), minutes{8}) << "that one has come back already";
}

TEST(IdlePatience, CountsFromTheLatestSlabOfASize) {
  IdlePatience patience;
  patience.note_unpinned(4_KiB, kStart);
  patience.note_unpinned(4_KiB, kStart + minutes{1});
  patience.note_missing(4_KiB, kStart + minutes{2});
  EXPECT_EQ(patience.length(), minutes{2});
}

TEST(IdlePatience, KeepsNothingForLongerThanAnHour) {
  IdlePatience patience;
  patience.note_asked_for(minutes{30});
  EXPECT_EQ(patience.length(), IdlePatience::kLongest);
  IdlePatience other;
  other.note_asked_for(minutes{31});
  EXPECT_EQ(other.length(), IdlePatience::kShortest) << "it is pinned again each time";
}

TEST(IdlePatience, RemembersTheSizesThatWereUnpinnedLast) {
  IdlePatience patience;
  for (unsigned i = 0; i < 17; ++i) patience.note_unpinned(Bytes{4096 * (i + 1)}, kStart);
  patience.note_missing(Bytes{4096}, kStart + minutes{1});
  EXPECT_EQ(patience.length(), IdlePatience::kShortest);
  patience.note_missing(Bytes{17 * 4096}, kStart + minutes{1});
  EXPECT_EQ(patience.length(), minutes{2});
}

}  // namespace
}  // namespace superpipe::testing
