// What the driver held beside superpipe's pages, by what a trace tells of it.
#include "tools/superpipe/planner/held_besides.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace superpipe::cli::testing {
namespace {

using ::testing::ElementsAre;

constexpr std::int64_t kMillisecond = 1'000'000;
constexpr std::int64_t kEnd = 60'000 * kMillisecond;

TEST(HeldBesidesTest, TellsOfChangesAlone) {
  HeldBesides besides;
  EXPECT_FALSE(besides.tell(0, 10_MiB, Bytes{}, 100_MiB));
  EXPECT_TRUE(besides.tell(kMillisecond, 10_MiB, 8_MiB, 100_MiB));
  EXPECT_FALSE(besides.tell(2 * kMillisecond, 20_MiB, 8_MiB, 100_MiB));
  const auto answer = besides.answer(2_MiB, true, kEnd);
  EXPECT_THAT(answer.granules, ElementsAre(4));
  EXPECT_EQ(answer.most, 8_MiB);
  EXPECT_EQ(answer.peak_device, 28_MiB);
}

TEST(HeldBesidesTest, WhatIsSoonFoundToBeLessWasFreedBefore) {
  HeldBesides besides;
  besides.tell(0, 10_MiB, 8_MiB, 100_MiB);
  besides.tell(5'000 * kMillisecond, 10_MiB, 40_MiB, 100_MiB);
  besides.tell(5'005 * kMillisecond, 10_MiB, 10_MiB, 100_MiB);
  const auto answer = besides.answer(2_MiB, true, kEnd);
  EXPECT_THAT(answer.granules, ElementsAre(4, 5, 5));
  EXPECT_EQ(answer.most, 10_MiB);
}

TEST(HeldBesidesTest, ABurstIsNoMoreThanTheBudgetLeaves) {
  HeldBesides besides;
  besides.tell(0, 90_MiB, 8_MiB, 100_MiB);
  besides.tell(5'000 * kMillisecond, 90_MiB, 40_MiB, 100_MiB);
  besides.tell(5'500 * kMillisecond, 90_MiB, 8_MiB, 100_MiB);
  EXPECT_THAT(besides.answer(2_MiB, true, kEnd).granules, ElementsAre(4, 5, 4));
}

TEST(HeldBesidesTest, WhatIsToldForLongIsHeld) {
  HeldBesides besides;
  besides.tell(0, 90_MiB, 8_MiB, 100_MiB);
  besides.tell(5'000 * kMillisecond, 90_MiB, 40_MiB, 100_MiB);
  EXPECT_THAT(besides.answer(2_MiB, true, kEnd).granules, ElementsAre(4, 20));
}

TEST(HeldBesidesTest, WithoutABudgetNothingCorrectsWhatWasCounted) {
  HeldBesides besides;
  besides.tell(0, 90_MiB, 1_MiB, Bytes{});
  besides.tell(kMillisecond, 90_MiB, 41_MiB, Bytes{});
  EXPECT_THAT(besides.answer(2_MiB, false, kEnd).granules, ElementsAre(1, 21));
}

// The trace may be anyone's.
TEST(HeldBesidesTest, TakesAnyTimesAndSizes) {
  constexpr auto kLast = std::numeric_limits<std::int64_t>::max();
  HeldBesides besides;
  besides.tell(std::numeric_limits<std::int64_t>::min(), Bytes{}, 4_MiB, 1_MiB);
  besides.tell(kLast, Bytes{}, Bytes{std::numeric_limits<std::uint64_t>::max()}, 1_MiB);
  EXPECT_LE(besides.answer(4_KiB, true, kLast).most, 1024_GiB);
  EXPECT_EQ(HeldBesides{}.answer(2_MiB, true, 0).most, Bytes{});
}

}  // namespace
}  // namespace superpipe::cli::testing
