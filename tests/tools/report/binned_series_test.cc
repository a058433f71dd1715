#include "tools/superpipe/report/binned_series.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>

namespace superpipe::cli {
namespace {

double sum_of(const BinnedSums& sums) {
  return std::accumulate(sums.bins().begin(), sums.bins().end(), 0.0);
}

TEST(BinnedSums, KeepsItsSumHoweverOftenBinsAreJoined) {
  BinnedSums sums(16);
  std::mt19937_64 random(1);
  double added = 0;
  for (int i = 0; i < 5000; ++i) {
    // Times of all magnitudes, up to two minutes, in no order.
    const std::uint64_t begin = random() >> (27 + random() % 30);
    const auto amount = static_cast<double>(random() % 1000);
    sums.spread(begin, begin + random() % 1'000'000, amount);
    added += amount;
  }
  EXPECT_LE(sums.bins().size(), 16U);
  EXPECT_GT(sums.width(), kFirstBinNs);
  EXPECT_NEAR(sum_of(sums), added, added * 1e-9);
}

TEST(BinnedSums, SpreadsByTime) {
  BinnedSums sums(16);
  sums.spread(kFirstBinNs / 2, 3 * kFirstBinNs, 100);
  ASSERT_EQ(sums.bins().size(), 4U);
  EXPECT_DOUBLE_EQ(sums.bins()[0], 20);
  EXPECT_DOUBLE_EQ(sums.bins()[1], 40);
  EXPECT_DOUBLE_EQ(sums.bins()[2], 40);
  EXPECT_DOUBLE_EQ(sums.bins()[3], 0);
}

TEST(BinnedSums, TakesWhatHasNoLengthAtItsBeginning) {
  BinnedSums sums(4);
  sums.spread(2 * kFirstBinNs, 2 * kFirstBinNs, 7);
  sums.spread(2 * kFirstBinNs, kFirstBinNs, 1);
  ASSERT_EQ(sums.bins().size(), 3U);
  EXPECT_DOUBLE_EQ(sums.bins()[2], 8);
}

TEST(BinnedSums, SurvivesTheEndOfTime) {
  BinnedSums sums(4);
  sums.add(~std::uint64_t{0}, 1);
  sums.spread(0, ~std::uint64_t{0}, 1);
  EXPECT_LE(sums.bins().size(), 4U);
  EXPECT_NEAR(sum_of(sums), 2, 1e-12);
}

TEST(BinnedLevel, KeepsPeaksHoweverOftenBinsAreJoined) {
  BinnedLevel level(16);
  std::mt19937_64 random(2);
  std::uint64_t time = 0;
  for (int i = 0; i < 20'000; ++i) {
    time += random() % 100'000;
    level.set(time, 1000 + random() % 500);
    if (i == 777) {
      level.set(time, 5000);  // for no time at all
      level.set(time, 1);
      level.set(time, 1000);
    }
  }
  level.cover(time);
  ASSERT_LE(level.bins().size(), 16U);
  const auto most = std::max_element(level.bins().begin(), level.bins().end(),
                                     [](const auto& a, const auto& b) { return a.most < b.most; });
  EXPECT_EQ(most->most, 5000U);
  EXPECT_EQ(most->least, most == level.bins().begin() ? 0U : 1U);
  EXPECT_EQ(level.peak(), 5000U);
  EXPECT_EQ(level.peak_time() / level.width(),
            static_cast<std::uint64_t>(most - level.bins().begin()));
}

TEST(BinnedLevel, IntegratesOverTime) {
  BinnedLevel level(8);
  level.set(1000, 10);
  level.set(51'000, 30);
  level.set(52'000, 0);
  level.cover(99'000);
  double integral = 0;
  for (const auto& bin : level.bins()) integral += bin.integral;
  EXPECT_DOUBLE_EQ(integral, 10.0 * 50'000 + 30.0 * 1'000);
}

TEST(BinnedLevel, HoldsItsValueInBinsWithoutAChange) {
  BinnedLevel level(64);
  level.set(0, 3);
  level.cover(10 * kFirstBinNs);
  ASSERT_EQ(level.bins().size(), 11U);
  for (std::size_t i = 1; i < level.bins().size(); ++i) {
    EXPECT_EQ(level.bins()[i].least, 3U);
    EXPECT_EQ(level.bins()[i].most, 3U);
  }
}

TEST(BinnedLevel, TakesLateNewsAtTheLatestTime) {
  BinnedLevel level(64);
  level.set(5000, 3);
  level.set(4000, 9);  // another thread's, a moment late
  level.cover(6000);
  EXPECT_EQ(level.value(), 9U);
  EXPECT_EQ(level.peak_time(), 5000U);
}

TEST(BinnedSeries, HaveTheSameBinsForTheSameEnd) {
  for (const std::uint64_t end : {0ULL, 1ULL, 99'999ULL, 123'456'789'012ULL}) {
    BinnedSums sums(32);
    BinnedLevel level(32);
    sums.add(end / 3, 1);
    level.set(end / 2, 1);
    sums.cover(end);
    level.cover(end);
    EXPECT_EQ(sums.width(), level.width());
    EXPECT_EQ(sums.bins().size(), level.bins().size());
  }
}

}  // namespace
}  // namespace superpipe::cli
