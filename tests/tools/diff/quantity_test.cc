// Medians with their spread, and the names of quantities.
#include "tools/superpipe/diff/quantity.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <random>
#include <set>
#include <string_view>
#include <vector>

namespace superpipe::cli {
namespace {

TEST(MedianOf, IsTheMiddle) {
  EXPECT_DOUBLE_EQ(median_of({3, 1, 2}).value, 2);
  EXPECT_DOUBLE_EQ(median_of({4, 1, 2, 3}).value, 2.5);
  EXPECT_DOUBLE_EQ(median_of({7}).value, 7);
}

TEST(MedianOf, SpreadIsNotKnownOfOnePass) { EXPECT_FALSE(median_of({7}).spread.has_value()); }

TEST(MedianOf, SpreadOfFewPassesIsAllOfThem) {
  const Measured few = median_of({5, 1, 4, 2, 3});
  ASSERT_TRUE(few.spread.has_value());
  EXPECT_DOUBLE_EQ(few.spread->low, 1);
  EXPECT_DOUBLE_EQ(few.spread->high, 5);
}

TEST(MedianOf, OneSlowPassOfManyIsOutsideTheSpread) {
  std::vector<double> passes(30, 10);
  for (std::size_t i = 0; i < passes.size(); ++i) passes[i] += static_cast<double>(i) * 0.01;
  passes.back() = 1000;
  const Measured many = median_of(passes);
  EXPECT_LT(many.spread->high, 10.3);
  EXPECT_LT(many.spread->low, many.value);
  EXPECT_GT(many.spread->high, many.value);
}

// The definition of a confidence interval, of a distribution that is far from a normal one.
TEST(MedianOf, SpreadHoldsTheTrueMedianAsOftenAsItShould) {
  std::mt19937_64 random(7);
  std::exponential_distribution<double> lengths(1);
  constexpr double kMedian = 0.693147180559945;  // ln 2
  for (const int count : {6, 9, 20, 101, 1500}) {
    const int trials = count > 1000 ? 500 : 4000;
    int held = 0;
    for (int trial = 0; trial < trials; ++trial) {
      std::vector<double> passes(static_cast<std::size_t>(count));
      for (double& pass : passes) pass = lengths(random);
      const Measured measured = median_of(passes);
      held += measured.spread->low <= kMedian && kMedian <= measured.spread->high ? 1 : 0;
    }
    EXPECT_GE(held, trials * 930 / 1000) << count;
    EXPECT_LE(held, trials * 985 / 1000) << count << ": so wide an interval hides what is worse";
  }
}

TEST(Quantities, StandInTheirOrderAndHaveNamesOfTheirOwn) {
  std::set<std::string_view> names;
  for (const QuantityKind& kind : all_quantities()) {
    EXPECT_EQ(&kind_of(kind.id), &kind);
    EXPECT_EQ(find_quantity(kind.name), &kind);
    names.insert(kind.name);
  }
  EXPECT_EQ(names.size(), kQuantities);
  EXPECT_EQ(find_quantity("pass"), nullptr);
  EXPECT_EQ(find_quantity(""), nullptr);
}

}  // namespace
}  // namespace superpipe::cli
