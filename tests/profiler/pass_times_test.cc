#include "profiler/pass_times.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "tests/profiler/example_figures.h"

namespace superpipe {
namespace {

using ::superpipe::testing::streaming_run;
using ::testing::Optional;

TEST(PassTimes, TakesTheMedianAndTheLinksBound) {
  const PassTimes times = pass_times(streaming_run());
  EXPECT_DOUBLE_EQ(times.pass_ms, 1800);
  EXPECT_THAT(times.bound_ms, Optional(1500.0));
}

TEST(PassTimes, IsBoundByComputeWhenAllFits) {
  RunFigures figures = streaming_run();
  figures.residency.managed_limit = 256_MiB;
  EXPECT_THAT(pass_times(figures).bound_ms, Optional(800.0));
}

TEST(PassTimes, HasNoBoundWithoutAMeasuredLink) {
  RunFigures figures = streaming_run();
  figures.link_bytes_per_second.reset();
  EXPECT_EQ(pass_times(figures).bound_ms, std::nullopt);
}

TEST(PassTimes, LeavesRoomForTransients) {
  RunFigures figures = streaming_run();
  figures.residency.peak_managed_demand = 144_MiB;  // 16 MiB of them transient
  EXPECT_THAT(pass_times(figures).bound_ms, Optional(1750.0));
}

TEST(PassTimes, IsBoundByComputeWhereThatTakesLongerThanTheLink) {
  RunFigures figures = streaming_run();
  figures.residency.stall_ms = 3 * 100;
  EXPECT_THAT(pass_times(figures).bound_ms, Optional(1700.0));
}

TEST(PassTimes, NeedsNoLinkWhereAllFits) {
  RunFigures figures = streaming_run();
  figures.link_bytes_per_second.reset();
  figures.residency.managed_limit = 128_MiB;
  EXPECT_THAT(pass_times(figures).bound_ms, Optional(800.0));
}

TEST(PassTimes, IsBoundByComputeUnderPolicyResident) {
  RunFigures figures = streaming_run();
  figures.policy = PolicyKind::kResident;
  figures.residency.managed_limit = Bytes{};
  EXPECT_THAT(pass_times(figures).bound_ms, Optional(800.0));
}

TEST(PassTimes, DoesNotComputeForLessThanNoTime) {
  RunFigures figures = streaming_run();
  figures.policy = PolicyKind::kResident;
  figures.residency.stall_ms = 3 * 2000;
  EXPECT_THAT(pass_times(figures).bound_ms, Optional(0.0));
}

TEST(PassTimes, HasNoBoundWithoutAPassOrItsBytes) {
  RunFigures no_pass = streaming_run();
  no_pass.residency.pass_ms.clear();
  EXPECT_EQ(pass_times(no_pass).pass_ms, 0);
  EXPECT_EQ(pass_times(no_pass).bound_ms, std::nullopt);
  RunFigures no_bytes = streaming_run();
  no_bytes.residency.learned.pass_bytes = Bytes{};
  EXPECT_EQ(pass_times(no_bytes).bound_ms, std::nullopt);
}

}  // namespace
}  // namespace superpipe
