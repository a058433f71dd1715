#include "profiler/latency_histogram.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace superpipe {
namespace {

using std::chrono::nanoseconds;

TEST(LatencyHistogram, IsZeroWithoutSamples) { EXPECT_EQ(LatencyHistogram().quantile(0.5), 0); }

TEST(LatencyHistogram, FindsQuantilesWithinAnEighth) {
  LatencyHistogram times;
  for (int i = 0; i < 98; ++i) times.add(nanoseconds(150));
  for (int i = 0; i < 2; ++i) times.add(nanoseconds(4000));
  EXPECT_NEAR(times.quantile(0.5), 150, 150 / 8.0);
  EXPECT_NEAR(times.quantile(0.99), 4000, 4000 / 8.0);
}

TEST(LatencyHistogram, RoundsEveryTimeUpByLessThanAnEighth) {
  for (nanoseconds::rep time = 0; time < LatencyHistogram::kRange.count(); time += 1 + time / 64) {
    LatencyHistogram times;
    times.add(nanoseconds(time));
    EXPECT_GE(times.quantile(1.0), static_cast<double>(time));
    EXPECT_LE(times.quantile(1.0), static_cast<double>(time) * 9 / 8);
  }
}

TEST(LatencyHistogram, LeavesOutNegativeTimesAndCountsLongOnesAsItsLongest) {
  constexpr auto kLongest = static_cast<double>(LatencyHistogram::kRange.count() - 1);
  LatencyHistogram times;
  times.add(nanoseconds(-1));
  EXPECT_EQ(times.quantile(1.0), 0);
  times.add(nanoseconds(1));
  times.add(std::chrono::hours(1));
  EXPECT_EQ(times.quantile(0), 1);
  EXPECT_EQ(times.quantile(1.0), kLongest);
}

TEST(LatencyHistogram, CountsSamplesOfAllThreads) {
  LatencyHistogram times;
  const auto add = [&times](nanoseconds time) {
    for (int i = 0; i < 1000; ++i) times.add(time);
  };
  std::thread other(add, nanoseconds(1000));
  add(nanoseconds(100));
  other.join();
  EXPECT_NEAR(times.quantile(0.49), 100, 100 / 8.0);
  EXPECT_NEAR(times.quantile(0.51), 1000, 1000 / 8.0);
}

}  // namespace
}  // namespace superpipe
