#include "profiler/launch_overhead_meter.h"

#include <gtest/gtest.h>

#include <chrono>

namespace superpipe {
namespace {

using std::chrono::nanoseconds;

TEST(LaunchOverheadMeter, TellsQuantilesOfItsSamples) {
  LaunchOverheadMeter overhead;
  for (int i = 0; i < 98; ++i) overhead.add(nanoseconds(150));
  for (int i = 0; i < 2; ++i) overhead.add(nanoseconds(4000));
  EXPECT_NEAR(overhead.quantile(0.5), 150, 150 / 8.0);
  EXPECT_NEAR(overhead.quantile(0.99), 4000, 4000 / 8.0);
}

TEST(LaunchOverheadMeter, LeavesOutNoLaunchForTakingLong) {
  LaunchOverheadMeter overhead;
  for (int i = 0; i < 98; ++i) overhead.add(nanoseconds(100));
  for (int i = 0; i < 2; ++i) overhead.add(std::chrono::milliseconds(3));
  EXPECT_NEAR(overhead.quantile(0.5), 100, 13);
  EXPECT_GT(overhead.quantile(0.99), 200'000) << "that is worth knowing of one launch in a hundred";
}

TEST(LaunchOverheadMeter, TimesOneLaunchInSoMany) {
  unsigned sampled = 0;
  for (unsigned i = 0; i < 10 * LaunchOverheadMeter::kOneIn; ++i) {
    sampled += LaunchOverheadMeter::is_sampled() ? 1 : 0;
  }
  EXPECT_EQ(sampled, 10U);
}

}  // namespace
}  // namespace superpipe
