#include "tools/superpipe/planner/kernel_times.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace superpipe::cli {
namespace {

using ::testing::ElementsAre;

std::vector<float> believed(std::vector<float> times) {
  replace_outliers(times);
  return times;
}

TEST(ReplaceOutliersTest, LongTimesThatCameOnceAreTheMedian) {
  EXPECT_THAT(believed({84, 3, 2, 3, 4, 105, 3, 454}), ElementsAre(4, 3, 2, 3, 4, 4, 3, 4));
}

TEST(ReplaceOutliersTest, LongTimesThatComeAgainAreTheirLaunches) {
  EXPECT_THAT(believed({1, 1, 1, 50, 1, 1, 1, 51}), ElementsAre(1, 1, 1, 50, 1, 1, 1, 51));
}

TEST(ReplaceOutliersTest, ShortTimesAndThoseOfFewLaunchesStay) {
  EXPECT_THAT(believed({10, 10, 1, 39}), ElementsAre(10, 10, 1, 39));
  EXPECT_THAT(believed({1, 1, 900}), ElementsAre(1, 1, 900));
  EXPECT_THAT(believed({}), ElementsAre());
}

}  // namespace
}  // namespace superpipe::cli
