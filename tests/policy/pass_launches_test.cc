#include "policy/pass_launches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace superpipe {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr double kRounding = 1e-12;

/// Launches by the ids that they name; `persistent` and `footprints` by id.
PassLaunches record(const std::vector<std::vector<std::uint32_t>>& pass,
                    const std::vector<Bytes>& persistent, const std::vector<Bytes>& footprints) {
  std::vector<std::vector<BufferId>> named;
  for (const auto& launch : pass) {
    named.emplace_back();
    for (const std::uint32_t id : launch) named.back().push_back(BufferId{id});
  }
  std::vector<LaunchRecord> launches;
  for (const auto& buffers : named) launches.push_back({KernelId{1}, buffers});
  return {launches, persistent, footprints};
}

TEST(PassLaunches, NumberPersistentBuffersByFirstAccess) {
  const PassLaunches pass =
      record({{7, 3}, {5, 3}, {9}}, {{}, {}, {}, 2_MiB, {}, 4_MiB}, std::vector<Bytes>(8, 4_MiB));
  EXPECT_EQ(pass.size(), 3U);
  EXPECT_EQ(pass.accesses(), 3U);
  EXPECT_THAT(pass.buffer_bytes(), ElementsAre(2_MiB, 4_MiB));
  EXPECT_EQ(pass.persistent_bytes(), 6_MiB);
  const auto launches = pass.estimated_launches(Seconds{1});
  EXPECT_THAT(launches[0].buffers, ElementsAre(BufferId{0}));
  EXPECT_THAT(launches[1].buffers, ElementsAre(BufferId{1}, BufferId{0}));
  EXPECT_THAT(launches[2].buffers, IsEmpty()) << "an id beyond the tables";
}

TEST(PassLaunches, ComputeInProportionToTheirBytesAboveWhatAKernelTakesAtLeast) {
  const PassLaunches pass = record({{0}, {1, 2}, {}}, {1_MiB, 2_MiB}, {1_MiB, 2_MiB, 1_MiB});
  const auto launches = pass.estimated_launches(Seconds{409e-6});
  EXPECT_NEAR(launches[0].compute.count(), 103e-6, kRounding);
  EXPECT_NEAR(launches[1].compute.count(), 303e-6, kRounding);
  EXPECT_NEAR(launches[2].compute.count(), 3e-6, kRounding);
}

TEST(PassLaunches, ShareATimeEvenlyThatIsTooShortForThem) {
  const PassLaunches pass = record({{0}, {1}}, {1_MiB, 7_MiB}, {1_MiB, 7_MiB});
  for (const TimedLaunch& launch : pass.estimated_launches(Seconds{4e-6})) {
    EXPECT_NEAR(launch.compute.count(), 2e-6, kRounding);
  }
  const PassLaunches nothing_named = record({{}, {}}, {}, {});
  for (const TimedLaunch& launch : nothing_named.estimated_launches(Seconds{4})) {
    EXPECT_NEAR(launch.compute.count(), 2, kRounding);
  }
  EXPECT_THAT(record({}, {}, {}).estimated_launches(Seconds{1}), IsEmpty());
}

// Buffer 0 is persistent, 1 is there from the first to the third launch, 2 in the second, and 3 in
// the last two.
TEST(PassLaunches, TellTheMostThatTransientsTakeAtOnce) {
  const std::vector<Bytes> sizes = {64_MiB, 1_MiB, 2_MiB, 2_MiB};
  EXPECT_EQ(record({{0, 1}, {2}, {1}, {3}, {3}}, {64_MiB}, sizes).transient_peak(), 3_MiB);
  EXPECT_EQ(record({{0, 1}, {2}, {1}, {2, 3}}, {64_MiB}, sizes).transient_peak(), 4_MiB);
  EXPECT_EQ(record({{0}}, {64_MiB}, sizes).transient_peak(), Bytes{});
}

TEST(PassLaunches, TellTheirLayers) {
  // Two layers of a large and a small buffer each, by two kernels; 4 is transient.
  const std::vector<std::vector<BufferId>> named = {
      {BufferId{0}, BufferId{4}}, {BufferId{1}}, {BufferId{2}, BufferId{4}}, {BufferId{3}}};
  const std::vector<LaunchRecord> launches = {{KernelId{1}, named[0]},
                                              {KernelId{2}, named[1]},
                                              {KernelId{1}, named[2]},
                                              {KernelId{2}, named[3]}};
  const std::vector<Bytes> persistent = {8_MiB, 1_MiB, 8_MiB, 1_MiB};
  const PassLaunches pass(launches, persistent, std::vector<Bytes>(5, 4_MiB));
  EXPECT_THAT(pass.layer_bytes(), ElementsAre(9_MiB, 9_MiB));
  EXPECT_THAT(PassLaunches({}, {}, {}).layer_bytes(), IsEmpty());
}

}  // namespace
}  // namespace superpipe
