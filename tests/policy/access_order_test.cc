#include "policy/access_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/policy/properties.h"

namespace superpipe {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Optional;
using ::testing::SizeIs;

void observe_all(SuccessorTable& table, const std::vector<std::uint32_t>& symbols, int times = 1) {
  for (int time = 0; time < times; ++time) {
    for (const std::uint32_t symbol : symbols) table.observe(symbol);
  }
}

TEST(SuccessorTable, KnowsNothingWithoutHistory) {
  SuccessorTable table;
  EXPECT_EQ(table.predict(), std::nullopt);
  EXPECT_THAT(table.walk(4), IsEmpty());
  EXPECT_EQ(table.confidence(), 0.0);
}

TEST(SuccessorTable, TellsTheWayUpFromTheWayDownWhenPalindromic) {
  SuccessorTable table;
  observe_all(table, {0, 1, 2, 3, 2, 1}, 2);
  table.observe(0);
  table.observe(1);
  EXPECT_THAT(table.predict(), Optional(2U));
  EXPECT_THAT(table.walk(6), ElementsAre(2, 3, 2, 1, 0, 1));
  table.observe(2);
  table.observe(3);
  table.observe(2);
  table.observe(1);
  EXPECT_THAT(table.predict(), Optional(0U));
}

TEST(SuccessorTable, KeepsItsPredictionAfterOneDeviation) {
  SuccessorTable table;
  observe_all(table, {0, 1, 2}, 3);
  observe_all(table, {0, 1, 7});  // once
  observe_all(table, {0, 1});
  EXPECT_THAT(table.predict(), Optional(2U));
}

TEST(SuccessorTable, ChangesItsPredictionAfterTwoDeviations) {
  SuccessorTable table;
  observe_all(table, {0, 1, 2}, 3);
  observe_all(table, {0, 1, 7}, 2);
  observe_all(table, {0, 1});
  EXPECT_THAT(table.predict(), Optional(7U));
}

TEST(SuccessorTable, GainsAndLosesConfidence) {
  SuccessorTable table;
  observe_all(table, {0, 1, 2, 3}, 20);
  EXPECT_GT(table.confidence(), 0.9);
  for (std::uint32_t symbol = 100; symbol < 140; ++symbol) table.observe(symbol);
  EXPECT_LT(table.confidence(), 0.1);
}

TEST(SuccessorTable, StaysWithinItsCapacity) {
  SuccessorTable table(16);
  for (std::uint32_t symbol = 0; symbol < 1000; ++symbol) {
    table.observe(symbol);
    EXPECT_LE(table.contexts(), 16U);
  }
}

std::optional<PeriodDetector::Period> feed(PeriodDetector& detector,
                                           const std::vector<std::uint64_t>& tokens) {
  for (const std::uint64_t token : tokens) {
    if (const auto period = detector.observe(token)) return period;
  }
  return std::nullopt;
}

TEST(PeriodDetector, WaitsUntilAShortPeriodHasRecurredWhole) {
  PeriodDetector detector;
  EXPECT_EQ(feed(detector, {1, 2, 3, 1, 2}), std::nullopt);
  const auto period = detector.observe(3);
  ASSERT_TRUE(period.has_value());
  EXPECT_EQ(period->first, 0U);
  EXPECT_EQ(period->period, 3U);
}

TEST(PeriodDetector, NeedsSixteenTokensOfALongPeriod) {
  PeriodDetector detector;
  std::vector<std::uint64_t> pass;
  for (std::uint64_t token = 0; token < 100; ++token) pass.push_back(token);
  EXPECT_EQ(feed(detector, pass), std::nullopt);
  EXPECT_EQ(feed(detector, {pass.begin(), pass.begin() + 15}), std::nullopt);
  EXPECT_TRUE(detector.observe(15).has_value());
}

TEST(PeriodDetector, CountsConsecutiveEqualTokensAsOne) {
  PeriodDetector detector;
  const auto period = feed(detector, {1, 1, 2, 3, 3, 3, 1, 2, 2, 3});
  ASSERT_TRUE(period.has_value());
  EXPECT_EQ(period->period, 3U);
  EXPECT_EQ(detector.size(), 6U);
}

TEST(PeriodDetector, FindsNothingInTheFirstHalfOfAPalindrome) {
  PeriodDetector detector;
  EXPECT_EQ(feed(detector, {1, 2, 3, 4, 14, 13, 12, 11}), std::nullopt);
  const auto period = feed(detector, {1, 2, 3, 4, 14, 13, 12, 11});
  ASSERT_TRUE(period.has_value());
  EXPECT_EQ(period->period, 8U);
}

TEST(PeriodDetector, PassesOverAnInnerPeriodWhenALongerMatchIsRequired) {
  // One block four times, then a head: the block's period is not the pass's.
  const std::vector<std::uint64_t> pass = {1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3, 9};
  PeriodDetector eager;
  EXPECT_EQ(feed(eager, pass)->period, 3U);
  PeriodDetector patient;
  patient.require_longer_match();
  patient.require_longer_match();
  std::optional<PeriodDetector::Period> found;
  for (int time = 0; time < 6 && !found; ++time) found = feed(patient, pass);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->period, 13U);
}

TEST(PeriodDetector, StaysWithinItsCapacity) {
  PeriodDetector detector(100);
  for (std::uint64_t token = 0; token < 10000; ++token) {
    EXPECT_EQ(detector.observe(token), std::nullopt);
    EXPECT_LE(detector.size(), 100U);
  }
}

RC_GTEST_PROP(PeriodDetector, FindsThePeriodOfDistinctTokensAfterAnyPrefix, ()) {
  const auto length = *rc::gen::inRange<std::size_t>(2, 60);
  const bool palindromic = *rc::gen::arbitrary<bool>();
  std::vector<std::uint64_t> pass;
  for (std::size_t at = 0; at < length; ++at) pass.push_back(1000 + at);
  // Forward and backward kernels differ: tokens do, layers do not.
  if (palindromic) {
    for (std::size_t at = length; at-- > 0;) pass.push_back(2000 + at);
  }
  const auto prefix =
      *rc::gen::unique<std::vector<std::uint64_t>>(rc::gen::inRange<std::uint64_t>(0, 500));
  PeriodDetector detector;
  RC_ASSERT(!feed(detector, prefix).has_value());
  RC_ASSERT(!feed(detector, pass).has_value());
  const auto period = feed(detector, pass);
  RC_ASSERT(period.has_value());
  RC_ASSERT(period->period == pass.size());
  RC_ASSERT(period->first == prefix.size());
}

RC_GTEST_PROP(PeriodDetector, AcceptsOnlyWhatRecurs, ()) {
  const auto tokens =
      *rc::gen::container<std::vector<std::uint64_t>>(rc::gen::inRange<std::uint64_t>(0, 6));
  PeriodDetector detector;
  std::vector<std::uint64_t> counted;
  for (const std::uint64_t token : tokens) {
    if (detector.would_count(token)) counted.push_back(token);
    const auto period = detector.observe(token);
    if (!period) continue;
    for (std::size_t at = period->first; at + period->period < counted.size(); ++at) {
      RC_ASSERT(counted[at] == counted[at + period->period]);
    }
    RC_ASSERT(counted.size() - period->first >=
              period->period + std::min<std::size_t>(period->period, 16));
  }
}

}  // namespace
}  // namespace superpipe
