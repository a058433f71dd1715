#include "policy/window_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/policy/programs.h"

namespace superpipe {
namespace {

// Eight layers of one buffer of 16 MiB, visited in turn.
struct Eight {
  VisitNeeds needs = {{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}};
  std::vector<Bytes> footprints = std::vector<Bytes>(8, 16_MiB);

  WindowChoice choose(const PolicyConfig& config, Bytes room = Bytes{}) const {
    return choose_windows(config, {needs, footprints, 8, 128_MiB}, room);
  }
};

TEST(ChooseWindows, TakesKAndKPrimeAsGiven) {
  const WindowChoice choice = Eight{}.choose(with_k(PolicyKind::kSuperpipelinePaper, 4, 3));
  EXPECT_TRUE(choice.active);
  EXPECT_EQ(choice.schedule.kind, WindowKind::kSuperpipelinePaper);
  EXPECT_EQ(choice.schedule.k, 4U);
  EXPECT_EQ(choice.schedule.k_prime, 3U);
  EXPECT_EQ(choice.schedule.visits, 8U);
  EXPECT_EQ(choice.window_bytes, 64_MiB);
  EXPECT_EQ(choice.wider_bytes, 80_MiB);
}

TEST(ChooseWindows, HalvesKForKPrimeWhenNotGivenOrTooLarge) {
  EXPECT_EQ(Eight{}.choose(with_k(PolicyKind::kSuperpipelinePaper, 5)).schedule.k_prime, 2U);
  EXPECT_EQ(Eight{}.choose(with_k(PolicyKind::kSuperpipelinePaper, 2)).schedule.k_prime, 1U);
  PolicyConfig config = with_budget(PolicyKind::kSuperpipelinePaper, 1_GiB);
  config.k_prime = 6;
  EXPECT_EQ(Eight{}.choose(config, 70_MiB).schedule.k_prime, 2U);
}

TEST(ChooseWindows, IsNaiveWithOneLayer) {
  for (const PolicyKind kind : {PolicyKind::kNaive, PolicyKind::kSuperpipelinePaper}) {
    EXPECT_EQ(Eight{}.choose(with_k(kind, 1)).schedule.kind, WindowKind::kNaive);
  }
}

TEST(ChooseWindows, MovesNothingWhenAllLayersMayStay) {
  const WindowChoice choice = Eight{}.choose(with_k(PolicyKind::kSuperpipelinePaper, 12));
  EXPECT_FALSE(choice.active);
  EXPECT_EQ(choice.schedule.k, 8U);
  EXPECT_EQ(choice.window_bytes, 128_MiB);
  EXPECT_FALSE(Eight{}.choose(PolicyConfig{}).active);
  EXPECT_FALSE(Eight{}.choose(with_budget(PolicyKind::kNaive, 1_GiB), 128_MiB).active);
}

TEST(ChooseWindows, TakesTheLargestKThatFitsTheRoom) {
  const PolicyConfig config = with_budget(PolicyKind::kSuperpipelinePaper, 1_GiB);
  EXPECT_EQ(Eight{}.choose(config, 127_MiB).schedule.k, 7U);
  EXPECT_EQ(Eight{}.choose(config, 63_MiB).schedule.k, 3U);
  EXPECT_EQ(Eight{}.choose(config, 31_MiB).schedule.k, 1U);
  EXPECT_EQ(Eight{}.choose(config, Bytes{}).schedule.k, 1U);
}

TEST(ChooseWindows, HasNothingToMoveWithoutLayers) {
  const WindowChoice choice =
      choose_windows(with_k(PolicyKind::kSuperpipelinePaper, 4), {{}, {}, 0, {}}, 1_GiB);
  EXPECT_FALSE(choice.active);
  EXPECT_EQ(choice.schedule.k, 1U);
}

}  // namespace
}  // namespace superpipe
