#include "policy/pull_policies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <vector>

#include "tests/policy/programs.h"

namespace superpipe {
namespace {

using ::testing::ElementsAre;

// `passes` passes over six buffers of 1 MiB, one for each launch.
void run_cycle(Policy& policy, int passes) {
  for (std::uint32_t id = 0; id < 6; ++id) {
    policy.on_allocate(BufferId{id}, 1_MiB, 1);
    policy.on_host_write(BufferId{id});
  }
  for (int pass = 0; pass < passes; ++pass) {
    for (std::uint32_t id = 0; id < 6; ++id) {
      const BufferId named{id};
      EXPECT_TRUE(policy.on_launch({KernelId{1}, {&named, 1}}).empty());
    }
  }
}

TEST(ReplayPolicy, LearnsPassesAndNoLayers) {
  ReplayPolicy policy;
  run_cycle(policy, 20);
  const PolicyEngine::Learned learned = policy.learned();
  EXPECT_FALSE(learned.layers_known);
  EXPECT_EQ(learned.launches, nullptr);
  EXPECT_GT(learned.passes, 10U);
  EXPECT_EQ(learned.passes, policy.puller()->replay().passes());
  EXPECT_EQ(learned.mispredictions, policy.puller()->replay().jumps());
}

// What reports have of layers under `auto`.
TEST(ReplayPolicy, RemembersAPassThatTellsItsLayers) {
  const Program program = llama_program(8);
  ReplayPolicy policy;
  for (std::uint32_t id = 0; id < program.footprints.size(); ++id) {
    policy.on_allocate(BufferId{id}, program.footprints[id], 1);
  }
  for (int pass = 0; pass < 4; ++pass) {
    for (const ScriptLaunch& launch : program.pass) {
      (void)policy.on_launch({launch.kernel, launch.buffers});
    }
  }
  const std::size_t length = program.pass.size();
  const auto pass = policy.puller()->replay().pass(2 * length, 3 * length);
  ASSERT_NE(pass, nullptr);
  const std::vector<Bytes> layers = pass->layer_bytes();
  ASSERT_EQ(layers.size(), 8U);
  EXPECT_EQ(layers[1], 2_MiB + 4 * 32_MiB + 3 * 86_MiB);
  EXPECT_EQ(layers[6], layers[1]);
  EXPECT_EQ(layers[0], layers[1] + 250_MiB) << "with the embedding";
  EXPECT_EQ(layers[7], layers[1] + 252_MiB) << "with the last norm and the head";
}

TEST(ReplayPolicy, ChoosesTheFurthestNextUse) {
  ReplayPolicy policy;
  run_cycle(policy, 20);
  const std::array candidates = {BufferId{3}, BufferId{5}, BufferId{4}};
  EXPECT_THAT(policy.choose_victims(candidates, 2_MiB), ElementsAre(BufferId{5}, BufferId{4}));
  EXPECT_THAT(policy.choose_victims(candidates, 9_MiB),
              ElementsAre(BufferId{5}, BufferId{4}, BufferId{3}));
  policy.on_free(BufferId{5});
  EXPECT_THAT(policy.choose_victims(candidates, 1_MiB), ElementsAre(BufferId{4}));
}

TEST(ReplayPolicy, ChoosesTheLeastRecentlyUsedWhereItExpectsNothing) {
  ReplayPolicy policy;
  run_cycle(policy, 1);
  const std::array candidates = {BufferId{3}, BufferId{5}, BufferId{4}};
  EXPECT_THAT(policy.choose_victims(candidates, 2_MiB), ElementsAre(BufferId{3}, BufferId{4}));
}

TEST(LruPolicy, ChoosesTheLeastRecentlyUsedThoughItKnowsTheOrder) {
  LruPolicy policy;
  run_cycle(policy, 20);
  EXPECT_GT(policy.learned().passes, 10U) << "for reports";
  const std::array candidates = {BufferId{3}, BufferId{5}, BufferId{4}};
  EXPECT_THAT(policy.choose_victims(candidates, 2_MiB), ElementsAre(BufferId{3}, BufferId{4}));
  EXPECT_EQ(policy.puller()->next_target(), std::nullopt);
}

TEST(ResidentPolicy, MovesNothingAndLearnsPasses) {
  ResidentPolicy policy;
  run_cycle(policy, 20);
  EXPECT_EQ(policy.puller(), nullptr);
  EXPECT_GT(policy.learned().passes, 10U);
  EXPECT_EQ(policy.outline().pass_bytes, policy.replay().pass_bytes());
  EXPECT_GT(policy.outline().pass_bytes, Bytes{});
}

TEST(MakePolicy, KnowsEveryKind) {
  for (const PolicyKind kind :
       {PolicyKind::kNaive, PolicyKind::kSuperpipelinePaper, PolicyKind::kResident}) {
    EXPECT_EQ(make_policy(with_k(kind, 2))->puller(), nullptr);
  }
  for (const PolicyKind kind : {PolicyKind::kLru, PolicyKind::kAuto, PolicyKind::kSuperpipeline}) {
    const auto policy = make_policy(with_budget(kind, 4_MiB));
    ASSERT_NE(policy->puller(), nullptr);
    EXPECT_EQ(policy->puller()->foresees(), kind != PolicyKind::kLru);
    EXPECT_GT(policy->managed_limit(), 1_GiB) << "until it is told what is available";
    policy->set_available(3_MiB);
    EXPECT_EQ(policy->managed_limit(), 3_MiB);
  }
}

}  // namespace
}  // namespace superpipe
