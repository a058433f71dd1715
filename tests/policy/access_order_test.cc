#include "policy/access_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <vector>

#include "tests/policy/properties.h"

namespace superpipe {
namespace {

void observe_all(SuccessorTable& table, const std::vector<std::uint32_t>& symbols, int times = 1) {
  for (int time = 0; time < times; ++time) {
    for (const std::uint32_t symbol : symbols) table.observe(symbol);
  }
}

// Whether a table in this state predicts `symbol`: only a right prediction raises its confidence.
bool predicts(SuccessorTable copy, std::uint32_t symbol) {
  const double before = copy.confidence();
  copy.observe(symbol);
  return copy.confidence() > before;
}

TEST(SuccessorTable, KnowsNothingWithoutHistory) {
  SuccessorTable table;
  EXPECT_EQ(table.confidence(), 0.0);
  for (const std::uint32_t symbol : {1U, 2U, 3U, 4U}) {
    EXPECT_FALSE(predicts(table, symbol));
    table.observe(symbol);
  }
  EXPECT_EQ(table.confidence(), 0.0);
}

TEST(SuccessorTable, TellsTheWayUpFromTheWayDownWhenPalindromic) {
  SuccessorTable table;
  observe_all(table, {0, 1, 2, 3, 2, 1}, 2);
  table.observe(0);
  table.observe(1);
  for (const std::uint32_t symbol : {2U, 3U, 2U, 1U, 0U, 1U}) {
    EXPECT_TRUE(predicts(table, symbol)) << symbol;
    EXPECT_FALSE(predicts(table, symbol + 2)) << symbol;
    table.observe(symbol);
  }
}

TEST(SuccessorTable, KeepsItsPredictionAfterOneDeviation) {
  SuccessorTable table;
  observe_all(table, {0, 1, 2}, 3);
  observe_all(table, {0, 1, 7});  // once
  observe_all(table, {0, 1});
  EXPECT_TRUE(predicts(table, 2));
  EXPECT_FALSE(predicts(table, 7));
}

TEST(SuccessorTable, ChangesItsPredictionAfterTwoDeviations) {
  SuccessorTable table;
  observe_all(table, {0, 1, 2}, 3);
  observe_all(table, {0, 1, 7}, 2);
  observe_all(table, {0, 1});
  EXPECT_TRUE(predicts(table, 7));
  EXPECT_FALSE(predicts(table, 2));
}

TEST(SuccessorTable, GainsAndLosesConfidence) {
  SuccessorTable table;
  observe_all(table, {0, 1, 2, 3}, 20);
  EXPECT_GT(table.confidence(), 0.9);
  for (std::uint32_t symbol = 100; symbol < 140; ++symbol) table.observe(symbol);
  EXPECT_LT(table.confidence(), 0.1);
}

TEST(SuccessorTable, ForgetsWhatDoesNotFitIntoItsCapacity) {
  std::vector<std::uint32_t> cycle(16);
  std::iota(cycle.begin(), cycle.end(), 0U);
  SuccessorTable holds_it(17);
  observe_all(holds_it, cycle, 20);
  EXPECT_GT(holds_it.confidence(), 0.9);
  SuccessorTable too_small(16);
  observe_all(too_small, cycle, 20);
  EXPECT_EQ(too_small.confidence(), 0.0);  // it starts anew before any context recurs
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
  EXPECT_EQ(feed(detector, {1, 1, 2, 3, 3, 3, 1, 2, 2}), std::nullopt);
  EXPECT_FALSE(detector.would_count(2));
  EXPECT_TRUE(detector.would_count(3));
  const auto period = detector.observe(3);
  ASSERT_TRUE(period.has_value());
  EXPECT_EQ(period->first, 0U);
  EXPECT_EQ(period->period, 3U);
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

TEST(PeriodDetector, ForgetsWhatDoesNotFitIntoItsCapacity) {
  std::vector<std::uint64_t> pass(100);
  std::iota(pass.begin(), pass.end(), 0U);
  PeriodDetector holds_it(116);  // the pass, and the 16 tokens that show that it recurs
  EXPECT_EQ(feed(holds_it, pass), std::nullopt);
  EXPECT_TRUE(feed(holds_it, pass).has_value());
  PeriodDetector too_small(100);
  for (int time = 0; time < 100; ++time) EXPECT_EQ(feed(too_small, pass), std::nullopt);
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
