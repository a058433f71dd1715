// The search is judged by hand-made cases, before anything is judged by it.
#include "tests/policy/exhaustive_schedule.h"

#include <gtest/gtest.h>

namespace superpipe {
namespace {

TEST(LeastTime, IsComputeWhereAllFits) {
  EXPECT_EQ(least_time({{1, 1}, {{2, {kFirst}}, {3, {kSecond}}, {0, {kFirst, kSecond}}}}, 2), 5);
  EXPECT_EQ(least_time({{1, 1}, {}}, 1), 0);
}

TEST(LeastTime, FetchesWhileALaunchRuns) {
  // The second buffer comes while the first launch runs, into the free place.
  EXPECT_EQ(least_time({{2, 1}, {{2, {kFirst}}, {1, {kSecond}}}}, 3), 3);
  // Without a free place it comes when the first launch has ended.
  EXPECT_EQ(least_time({{2, 1}, {{2, {kFirst}}, {1, {kSecond}}}}, 2), 4);
}

TEST(LeastTime, KeepsTheRunningLaunchInPlace) {
  // Two of the three pieces are there at the beginning; each later launch needs one of the others.
  EXPECT_EQ(least_time({{1, 1, 1}, {{1, {kFirst, kSecond}}, {1, {kThird}}}}, 2), 3);
}

TEST(LeastTime, RaisesTheDeviceToTheLargestWorkingSet) {
  EXPECT_EQ(least_time({{2, 1}, {{1, {kFirst, kSecond}}}}, 0), 1);
}

TEST(LeastTimePerPass, IsTheBestMeanOverPasses) {
  // Three in turns with room for two: MIN misses every other launch, and each miss is waited for.
  const SmallProgram cycle{{1, 1, 1}, {{0, {kFirst}}, {0, {kSecond}}, {0, {kThird}}}};
  EXPECT_DOUBLE_EQ(least_time_per_pass(cycle, 2), 1.5);
  EXPECT_DOUBLE_EQ(least_time_per_pass(cycle, 1), 3.0);
  EXPECT_DOUBLE_EQ(least_time_per_pass(cycle, 3), 0.0);
}

TEST(FewestFetches, CountsWhatMinMisses) {
  const SmallProgram cycle{{1, 1, 1}, {{0, {kFirst}}, {0, {kSecond}}, {0, {kThird}}}};
  EXPECT_EQ(fewest_fetches(cycle, 3), 3);
  EXPECT_EQ(fewest_fetches({{1, 1}, {{0, {kFirst}}, {0, {kSecond}}, {0, {kFirst}}}}, 1), 3);
  EXPECT_EQ(fewest_fetches({{2, 1}, {{0, {kFirst}}, {0, {kSecond}}, {0, {kFirst}}}}, 2), 4);
  EXPECT_DOUBLE_EQ(fewest_fetches_per_pass(cycle, 2), 1.5);
  EXPECT_DOUBLE_EQ(fewest_fetches_per_pass(cycle, 3), 0.0);
}

}  // namespace
}  // namespace superpipe
