#include "profiler/pass_times.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <utility>
#include <vector>

#include "tests/profiler/example_figures.h"

namespace superpipe {
namespace {

using ::superpipe::testing::pass_of;
using ::superpipe::testing::streaming_run;
using ::testing::DoubleNear;
using ::testing::Optional;

constexpr double kRounding = 1e-6;

RunFigures with_stalls(double stall_ms) {
  RunFigures figures = streaming_run();
  for (MeasuredPass& pass : figures.residency.measured_passes) pass.stall_ms = stall_ms;
  return figures;
}

TEST(PassTimes, TakesTheMedianAndTheLinksBounds) {
  const PassTimes times = pass_times(streaming_run());
  EXPECT_DOUBLE_EQ(times.pass_ms, 2000);
  EXPECT_DOUBLE_EQ(times.pass_launches, 8);
  EXPECT_DOUBLE_EQ(times.stall_ms, 1200);
  EXPECT_THAT(times.bound_ms, Optional(DoubleNear(1500, kRounding)));
  EXPECT_THAT(times.windowed_bound_ms, Optional(DoubleNear(1600 * 8 / 7.0, kRounding)));
  EXPECT_THAT(times.avoidable_stall_share,
              Optional(DoubleNear((2000 - 1600 * 8 / 7.0) / 1200, kRounding)));
}

TEST(PassTimes, CountsAPassForAsManyLaunchesAsItHas) {
  RunFigures figures = streaming_run();
  std::vector<MeasuredPass>& passes = figures.residency.measured_passes;
  for (int at = 0; at < 10; ++at) passes.insert(passes.begin(), {1, 0.5, 0, 1});
  passes.push_back({60'000, 0, 32, 40});  // in which the user thought
  EXPECT_DOUBLE_EQ(pass_times(figures).pass_ms, 2000);
  EXPECT_DOUBLE_EQ(pass_times(figures).pass_launches, 8);
}

// While a program initialises its weights, two launches after the other are taken for a pass.
TEST(PassTimes, CountThePassesThatAreAboutAsLongAsTheMedianOne) {
  RunFigures figures = streaming_run();
  EXPECT_EQ(pass_times(figures).passes, 3U);
  std::vector<MeasuredPass>& passes = figures.residency.measured_passes;
  for (int at = 0; at < 11; ++at) passes.insert(passes.begin(), {0.5, 0, 0, 2});
  passes.push_back({2200, 1200, 32, 42});
  passes.push_back({2900, 1200, 42, 53});
  figures.residency.learned.passes = 20;
  EXPECT_EQ(pass_times(figures).passes, 4U);
  EXPECT_DOUBLE_EQ(pass_times(figures).pass_ms, 2000);
  figures.residency.forgotten_passes = 1600;
  EXPECT_EQ(pass_times(figures).passes, 404U) << "a quarter of what is remembered is";
  passes.clear();
  EXPECT_EQ(pass_times(figures).passes, 0U);
}

TEST(PassTimes, AreBoundByComputeWhenAllFits) {
  RunFigures figures = streaming_run();
  figures.residency.managed_limit = 256_MiB;
  const PassTimes times = pass_times(figures);
  EXPECT_THAT(times.bound_ms, Optional(800.0));
  EXPECT_THAT(times.windowed_bound_ms, Optional(800.0));
  EXPECT_THAT(times.avoidable_stall_share, Optional(1.0));
}

TEST(PassTimes, HaveNoBoundWithoutAMeasuredLink) {
  RunFigures figures = streaming_run();
  figures.link_bytes_per_second.reset();
  const PassTimes times = pass_times(figures);
  EXPECT_EQ(times.bound_ms, std::nullopt);
  EXPECT_EQ(times.windowed_bound_ms, std::nullopt);
  EXPECT_EQ(times.avoidable_stall_share, std::nullopt);
  EXPECT_DOUBLE_EQ(times.stall_ms, 1200);
}

TEST(LeastPassMs, IsTheLongerOfComputeAndLink) {
  const MeasuredPass pass{100, 40, 0, 8};
  EXPECT_THAT(least_pass_ms(pass, 100_MiB, 50_MiB, {}, 1024.0 * (1 << 20)),
              Optional(DoubleNear(60, kRounding)));
  EXPECT_THAT(least_pass_ms(pass, 100_MiB, 0_MiB, {}, 1024.0 * (1 << 20)),
              Optional(DoubleNear(1000.0 * 100 / 1024, kRounding)));
}

TEST(LeastPassMs, CountsOnlyWhatCrossesTheLink) {
  const MeasuredPass pass{100, 100, 0, 8};
  EXPECT_THAT(least_pass_ms(pass, 100_MiB, 50_MiB, 10_MiB, 1024.0 * (1 << 20)),
              Optional(DoubleNear(1000.0 * 40 / 1024, kRounding)));
}

TEST(LeastPassMs, NeedsNoLinkWhereAllFits) {
  EXPECT_THAT(least_pass_ms({100, 0, 0, 8}, 100_MiB, 100_MiB, {}, std::nullopt), Optional(100.0));
  EXPECT_THAT(least_pass_ms({100, 120, 0, 8}, 100_MiB, 100_MiB, {}, std::nullopt), Optional(0.0))
      << "the last stall may be seen in the next pass";
}

TEST(LeastPassMs, IsNotKnownWithoutThePassOrTheLink) {
  EXPECT_EQ(least_pass_ms({100, 0, 0, 8}, Bytes{}, 50_MiB, {}, 1e9), std::nullopt);
  EXPECT_EQ(least_pass_ms({100, 0, 0, 8}, 100_MiB, 50_MiB, {}, std::nullopt), std::nullopt);
  EXPECT_EQ(least_pass_ms({100, 0, 0, 8}, 100_MiB, 50_MiB, {}, 0.0), std::nullopt);
}

TEST(PassTimes, CountOnlyWhatCrossesTheLink) {
  RunFigures figures = streaming_run();
  const PassTimes before = pass_times(figures);
  figures.residency.peak_padding = 16_MiB;
  const PassTimes times = pass_times(figures);
  EXPECT_THAT(times.bound_ms, Optional(DoubleNear(1250, kRounding)));
  EXPECT_LT(*times.windowed_bound_ms, *before.windowed_bound_ms - 200);
}

TEST(PassTimes, LeaveRoomForTransients) {
  RunFigures figures = streaming_run();
  figures.residency.learned.launches = pass_of(std::vector<Bytes>(8, 16_MiB), 16_MiB);
  EXPECT_THAT(pass_times(figures).bound_ms, Optional(DoubleNear(1750, kRounding)));
}

TEST(PassTimes, AreBoundByComputeWhereThatTakesLongerThanTheLink) {
  const PassTimes times = pass_times(with_stalls(50));
  EXPECT_THAT(times.bound_ms, Optional(DoubleNear(1950, kRounding)));
  EXPECT_GE(*times.windowed_bound_ms, 1950 - kRounding);
}

TEST(PassTimes, CallNoStallAvoidableThatABoundExplains) {
  const PassTimes times = pass_times(with_stalls(1000));  // of 1000 ms compute
  EXPECT_GT(*times.windowed_bound_ms, times.pass_ms - times.stall_ms);
  RunFigures fast = streaming_run();
  fast.residency.measured_passes = {{1500, 1400, 0, 8}};
  EXPECT_THAT(pass_times(fast).avoidable_stall_share, Optional(0.0));
}

TEST(PassTimes, TellNoShareOfNoStalls) {
  const PassTimes times = pass_times(with_stalls(0));
  EXPECT_EQ(times.stall_ms, 0);
  EXPECT_NE(times.bound_ms, std::nullopt);
  EXPECT_EQ(times.avoidable_stall_share, std::nullopt);
}

TEST(PassTimes, NeedNoLinkWhereAllFits) {
  RunFigures figures = streaming_run();
  figures.link_bytes_per_second.reset();
  figures.residency.managed_limit = 128_MiB;
  EXPECT_THAT(pass_times(figures).windowed_bound_ms, Optional(800.0));
}

TEST(PassTimes, AreBoundByComputeUnderPolicyResident) {
  RunFigures figures = streaming_run();
  figures.policy = PolicyKind::kResident;
  figures.residency.managed_limit = Bytes{};
  EXPECT_THAT(pass_times(figures).bound_ms, Optional(800.0));
}

TEST(PassTimes, DoNotComputeForLessThanNoTime) {
  RunFigures figures = with_stalls(4000);
  figures.policy = PolicyKind::kResident;
  EXPECT_THAT(pass_times(figures).bound_ms, Optional(0.0));
}

TEST(PassTimes, HaveNoBoundWithoutAPassOrItsLaunches) {
  RunFigures no_pass = streaming_run();
  no_pass.residency.measured_passes.clear();
  EXPECT_EQ(pass_times(no_pass).pass_ms, 0);
  EXPECT_EQ(pass_times(no_pass).bound_ms, std::nullopt);
  RunFigures no_launches = streaming_run();
  no_launches.residency.learned.launches = nullptr;
  EXPECT_EQ(pass_times(no_launches).pass_ms, 2000);
  EXPECT_EQ(pass_times(no_launches).bound_ms, std::nullopt);
}

TEST(PassTimes, LeaveOutTheWindowedBoundOfAVeryLongPass) {
  RunFigures figures = streaming_run();
  figures.residency.learned.launches = pass_of(std::vector<Bytes>(131'073, Bytes{1024}));
  const PassTimes times = pass_times(figures);
  EXPECT_NE(times.bound_ms, std::nullopt);
  EXPECT_EQ(times.windowed_bound_ms, std::nullopt);
  EXPECT_NE(times.avoidable_stall_share, std::nullopt) << "by the physical bound";
  figures.residency.learned.launches = pass_of(std::vector<Bytes>(131'072, Bytes{1024}));
  EXPECT_NE(pass_times(figures).windowed_bound_ms, std::nullopt);
}

TEST(TypicalPass, IsTheOneNearestTheMedianThatIsRemembered) {
  const std::vector<MeasuredPass> passes = {
      {100, 0, 0, 10}, {110, 0, 10, 20}, {120, 0, 20, 30}, {112, 0, 30, 40}, {109, 0, 40, 50}};
  EXPECT_THAT(typical_pass(passes, 0), Optional(passes[1]));
  EXPECT_THAT(typical_pass(passes, 1), Optional(passes[4]))
      << "of 10 launches before it, 1 is gone";
  EXPECT_EQ(typical_pass(passes, 31), std::nullopt);
  EXPECT_EQ(typical_pass({}, 0), std::nullopt);
}

TEST(TypicalPass, IsNoneOfAnotherKind) {
  const std::vector<MeasuredPass> passes = {
      {100, 0, 0, 10}, {100, 0, 10, 20}, {100, 0, 20, 30}, {160, 0, 30, 40}};
  EXPECT_THAT(typical_pass(passes, 10), Optional(passes[2]));
  EXPECT_EQ(typical_pass(passes, 11), std::nullopt);
}

}  // namespace
}  // namespace superpipe
