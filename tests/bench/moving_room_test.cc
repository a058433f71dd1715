// How `auto` takes a budget, or room on the device, that becomes another in the midst of a run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "bench/virtual_time/workloads.h"
#include "policy/piece_size.h"
#include "residency/virtual_time/experiment.h"
#include "residency/virtual_time/pass_trace.h"

namespace superpipe::bench {

using namespace virtual_time;

namespace {

using ::testing::IsEmpty;

/// `auto` on llama-decode with a budget of `percent` of what it needs, which may be another later.
class MovingRoom : public ::testing::Test {
 protected:
  [[nodiscard]] Bytes percent(std::uint64_t percent) const {
    return Bytes{peak_.count() / 100 * percent};
  }
  Outcome decode(std::uint64_t budget, std::vector<Disturbance> disturbances, int passes) {
    Experiment options;
    options.policy = PolicyKind::kAuto;
    options.budget = percent(budget);
    options.piece_size = piece_size_for(options.budget, options.device.granularity);
    options.passes = passes;
    options.disturbances = std::move(disturbances);
    options.device.capacity = capacity_;
    Outcome outcome = run(*entry_.make(), options);
    EXPECT_THAT(outcome.error, IsEmpty());
    EXPECT_THAT(outcome.violations, IsEmpty());
    EXPECT_EQ(outcome.passes.size(), static_cast<std::size_t>(passes));
    return outcome;
  }
  /// The mean time of a pass, once it is steady, in a run whose budget is this one all along.
  Seconds steady(std::uint64_t budget) {
    Seconds time{};
    const Outcome outcome = decode(budget, {}, 8);
    for (std::size_t pass = 3; pass < 8; ++pass) time += outcome.passes[pass].time;
    return time / 5.0;
  }

  const WorkloadEntry& entry_ = *find_workload("llama-decode");
  const Bytes peak_ = record_passes(*entry_.make(), 2, 2_MiB).peak();
  Bytes capacity_{std::uint64_t{1} << 50};
};

TEST_F(MovingRoom, AChangedBudgetHasItsSteadyPassTimeWithinTwoPasses) {
  const Outcome outcome =
      decode(50, {{6, percent(30), std::nullopt}, {12, percent(70), std::nullopt}}, 18);
  const Seconds at_30 = steady(30);
  const Seconds at_70 = steady(70);
  ASSERT_GT(at_30 / at_70, 1.5) << "the budgets do not matter: nothing is tested";
  for (std::size_t pass = 8; pass < 12; ++pass) {
    EXPECT_LE(outcome.passes[pass].time / at_30, 1.05) << pass;
  }
  for (std::size_t pass = 14; pass < 18; ++pass) {
    EXPECT_LE(outcome.passes[pass].time / at_70, 1.05) << pass;
  }
  // The pass in which it shrinks writes back what leaves, and the one in which it grows is no
  // slower than before.
  EXPECT_LE(outcome.passes[12].time / at_30, 1.05);
}

// What others do is noticed by the next sample, which is at most a second away.
TEST_F(MovingRoom, RoomThatOthersTakeAndGiveBackIsLeftAndUsedAgain) {
  capacity_ = peak_;
  const Outcome outcome =
      decode(70, {{6, std::nullopt, percent(70)}, {16, std::nullopt, Bytes{}}}, 28);
  const Seconds at_30 = steady(30);
  const Seconds at_70 = steady(70);
  Seconds noticing{};  // all passes but the last two of each part
  for (std::size_t pass = 6; pass < 14; ++pass) noticing += outcome.passes[pass].time;
  ASSERT_GT(noticing, std::chrono::seconds{1});
  for (std::size_t pass = 14; pass < 16; ++pass) {
    EXPECT_LE(outcome.passes[pass].time / at_30, 1.05) << pass;
    EXPECT_GE(outcome.passes[pass].time / at_70, 1.2) << "nothing gave way in pass " << pass;
  }
  for (std::size_t pass = 26; pass < 28; ++pass) {
    EXPECT_LE(outcome.passes[pass].time / at_70, 1.05) << pass;
  }
}

}  // namespace
}  // namespace superpipe::bench
