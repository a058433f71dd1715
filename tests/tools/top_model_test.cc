#include "tools/superpipe/top_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>

#include "tests/tools/top_testing.h"

namespace superpipe::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

TEST(RatesBetween, AreDifferencesOverTheProcesssOwnTime) {
  LiveFigures before = look_at(1, 10).figures;
  LiveFigures after = look_at(1, 12).figures;
  before.h2d = 1_MiB;
  after.h2d = 9_MiB;
  after.d2h = 2_MiB;
  after.launches = 100;
  after.passes = 3;
  after.demand_fetches = 2;
  after.prefetches = 6;
  after.clean_evictions = 1;
  after.write_backs = 1;
  after.stall_ns = kSecond / 2;
  const auto rates = rates_between(before, after);
  ASSERT_TRUE(rates.has_value());
  EXPECT_DOUBLE_EQ(rates->seconds, 2);
  EXPECT_DOUBLE_EQ(rates->h2d, 4 << 20);
  EXPECT_DOUBLE_EQ(rates->d2h, 1 << 20);
  EXPECT_DOUBLE_EQ(rates->launches, 50);
  EXPECT_DOUBLE_EQ(rates->passes, 1.5);
  EXPECT_DOUBLE_EQ(rates->fetches, 4);
  EXPECT_DOUBLE_EQ(rates->evictions, 1);
  EXPECT_DOUBLE_EQ(rates->stall, 0.25);
}

TEST(RatesBetween, AreNoneWithoutTimeOrWhereCountsBecomeLess) {
  const LiveFigures figures = look_at(1, 10).figures;
  EXPECT_EQ(rates_between(figures, figures), std::nullopt);
  EXPECT_EQ(rates_between(look_at(1, 11).figures, figures), std::nullopt);
  LiveFigures before = figures;
  before.launches = 5;
  EXPECT_EQ(rates_between(before, look_at(1, 11).figures), std::nullopt);
}

// ---- the model ----------------------------------------------------------------------------------

TEST(TopModel, HasRatesFromTheSecondAnswerOn) {
  TopModel model;
  model.update({look_at(7, 1)});
  EXPECT_FALSE(model.rows()[0].rates.has_value());
  ProcessLook next = look_at(7, 2);
  next.figures.h2d = 1_MiB;
  model.update({next});
  ASSERT_TRUE(model.rows()[0].rates.has_value());
  EXPECT_DOUBLE_EQ(model.rows()[0].rates->h2d, 1 << 20);
  model.update({next});  // the same figures once more: it has not answered anew
  EXPECT_DOUBLE_EQ(model.rows()[0].rates->h2d, 1 << 20);
  EXPECT_THAT(model.rows()[0].fetch.values(), SizeIs(1));
}

TEST(TopModel, HasNoRatesOfAProcessThatDoesNotAnswer) {
  TopModel model;
  model.update({look_at(7, 1)});
  model.update({look_at(7, 2)});
  ProcessLook silent = look_at(7, 2);
  silent.answers = false;
  model.update({silent});
  EXPECT_FALSE(model.rows()[0].rates.has_value());
}

TEST(TopModel, DoesNotTakeAnotherProcessOfTheSameIdForTheOneBefore) {
  TopModel model;
  model.update({look_at(7, 1)});
  ProcessLook other = look_at(7, 2);
  other.start_time = 99;
  model.update({other});
  EXPECT_FALSE(model.rows()[0].rates.has_value());
  EXPECT_THAT(model.rows()[0].pages.values(), SizeIs(1));
}

TEST(TopModel, KeepsAsMuchHistoryAsIsShown) {
  TopModel model;
  for (std::uint64_t second = 1; second < 2 * History::kLength; ++second) {
    model.update({look_at(7, second, Bytes{second})});
  }
  EXPECT_THAT(model.rows()[0].pages.values(), SizeIs(History::kLength));
  EXPECT_DOUBLE_EQ(model.rows()[0].pages.largest(), 2.0 * History::kLength - 1);
}

TEST(TopModel, OrdersByWhatIsWanted) {
  TopModel model;
  model.update({look_at(1, 1), look_at(2, 1), look_at(3, 1), problem_at(4, LiveProblem::kDamaged)});
  ProcessLook first = look_at(1, 2, 2_MiB);
  ProcessLook second = look_at(2, 2, 4_MiB);
  ProcessLook third = look_at(3, 2, 3_MiB);
  first.figures.h2d = 5_MiB;
  third.figures.stall_ns = 7;
  model.update({first, second, third, problem_at(4, LiveProblem::kDamaged)});
  EXPECT_THAT(pids_of(model), ElementsAre(1, 2, 3, 4));
  model.next_order();
  EXPECT_EQ(model.order(), TopOrder::kPages);
  EXPECT_THAT(pids_of(model), ElementsAre(2, 3, 1, 4));
  model.next_order();
  EXPECT_EQ(model.order(), TopOrder::kFetch);
  EXPECT_THAT(pids_of(model), ElementsAre(1, 2, 3, 4));
  model.next_order();
  EXPECT_EQ(model.order(), TopOrder::kStall);
  EXPECT_THAT(pids_of(model), ElementsAre(3, 1, 2, 4));
  model.next_order();
  EXPECT_EQ(model.order(), TopOrder::kPid);
}

TEST(TopModel, KeepsTheChoiceWithItsProcess) {
  TopModel model;
  EXPECT_EQ(model.chosen(), nullptr);
  model.move_choice(1);
  model.update({look_at(1, 1, 1_MiB), look_at(2, 1, 2_MiB), look_at(3, 1, 3_MiB)});
  model.move_choice(1);
  EXPECT_EQ(model.chosen()->look.pid, 2);
  model.next_order();  // 3, 2, 1
  EXPECT_EQ(model.chosen()->look.pid, 2);
  model.move_choice(100);
  EXPECT_EQ(model.chosen()->look.pid, 1);
  model.update({look_at(1, 2), look_at(4, 2, 4_MiB)});
  EXPECT_EQ(model.chosen()->look.pid, 1);
  model.update({look_at(4, 3)});
  EXPECT_EQ(model.chosen()->look.pid, 4);
  model.move_choice(-100);
  EXPECT_EQ(model.chosen_index(), 0U);
  model.update({});
  EXPECT_EQ(model.chosen(), nullptr);
}

TEST(TopRow, ComparesTheLastPassWithItsBound) {
  TopRow row{look_at(1, 1)};
  EXPECT_EQ(row.over_bound(), std::nullopt);
  row.look.figures.pass_ns = 300;
  EXPECT_EQ(row.over_bound(), std::nullopt);
  row.look.figures.bound_ns = 200;
  EXPECT_EQ(row.over_bound(), 1.5);
}

}  // namespace
}  // namespace superpipe::cli
