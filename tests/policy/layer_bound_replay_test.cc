#include "policy/layer_bound_replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>

#include "tests/policy/programs.h"

namespace superpipe {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

// Loads a program of eight layers, which are the buffers 2 to 9, and runs passes of it.
class EightLayers {
 public:
  explicit EightLayers(const PolicyConfig& config) : policy(config) {
    if (config.budget) policy.set_available(*config.budget);
    for (std::uint32_t id = 0; id < program.footprints.size(); ++id) {
      policy.on_allocate(BufferId{id}, program.footprints[id], 4);
      if (program.host_written.contains(id)) policy.on_host_write(BufferId{id});
    }
  }
  void launch(std::size_t at) {
    const ScriptLaunch& launched = program.pass[at];
    EXPECT_TRUE(policy.on_launch({launched.kernel, launched.buffers}).empty());
  }
  void run(int passes) {
    for (int pass = 0; pass < passes; ++pass) {
      for (std::size_t at = 0; at < program.pass.size(); ++at) launch(at);
    }
  }

  const Program program = forward_program(8);
  LayerBoundReplay policy;
};

TEST(LayerBoundReplay, DecidesNothingAndHasTheReplayAskedForEachPiece) {
  EightLayers run(with_k(PolicyKind::kSuperpipeline, 4));
  run.run(3);
  ASSERT_NE(run.policy.puller(), nullptr);
  const auto target = run.policy.puller()->next_target();
  ASSERT_TRUE(target.has_value());
  EXPECT_TRUE(run.program.host_written.contains(index_of(target->id)));
}

TEST(LayerBoundReplay, MayTakeWhatKLayersTakeAndWhatIsInNone) {
  EightLayers run(with_k(PolicyKind::kSuperpipeline, 4));
  EXPECT_EQ(run.policy.managed_limit(), 4 * 16_MiB) << "four times the largest buffer";
  run.run(3);
  EXPECT_EQ(run.policy.managed_limit(), 4 * 16_MiB + 2_MiB);
  EXPECT_THAT(run.policy.learned().layer_bytes, SizeIs(8));
  EXPECT_EQ(run.policy.learned().k, 4);
  EXPECT_EQ(run.policy.outline().layers, 8U);
  for (std::uint32_t layer = 0; layer < 8; ++layer) {
    EXPECT_EQ(run.policy.layer_of(BufferId{2 + layer}), std::optional<std::size_t>(layer));
  }
  EXPECT_EQ(run.policy.layer_of(BufferId{0}), std::nullopt) << "an activation, of all layers";
  EXPECT_EQ(run.policy.layer_of(BufferId{77}), std::nullopt);
}

TEST(LayerBoundReplay, MayTakeAllWhereAllLayersMayStay) {
  EightLayers run(with_k(PolicyKind::kSuperpipeline, 8));
  EXPECT_EQ(run.policy.managed_limit(), 8 * 16_MiB) << "eight times the largest buffer";
  run.run(3);
  EXPECT_EQ(run.policy.managed_limit(), run.program.total());
  EXPECT_EQ(run.policy.outline().k, 8);
}

TEST(LayerBoundReplay, MayTakeKOfTheLargestBufferWhereFewerLayersHaveBeenSeen) {
  EightLayers run(with_k(PolicyKind::kSuperpipeline, 12));
  run.run(3);
  for (std::uint32_t id = 100; id < 120; ++id) run.policy.on_allocate(BufferId{id}, 64_MiB, 4);
  EXPECT_EQ(run.policy.managed_limit(), 12 * 64_MiB) << "a larger model is loaded";
}

TEST(LayerBoundReplay, StaysWithinTheLayersOfTheModelThatRunsWhileAnotherIsLoaded) {
  EightLayers run(with_k(PolicyKind::kSuperpipeline, 4));
  run.run(3);
  for (std::uint32_t id = 100; id < 120; ++id) run.policy.on_allocate(BufferId{id}, 64_MiB, 4);
  EXPECT_EQ(run.policy.managed_limit(), 4 * 16_MiB + 2_MiB);
}

TEST(LayerBoundReplay, ForgetsTheLayersOfAModelThatIsGone) {
  EightLayers run(with_k(PolicyKind::kSuperpipeline, 4));
  run.run(3);
  for (std::uint32_t id = 2; id < 10; ++id) run.policy.on_free(BufferId{id});
  EXPECT_THAT(run.policy.learned().layer_bytes, SizeIs(8)) << "until a pass begins";
  for (std::uint32_t id = 2; id < 8; ++id) run.policy.on_allocate(BufferId{id}, 2_MiB, 1);
  for (std::uint32_t launch = 0; launch < 20 * 6; ++launch) {
    const BufferId named{2 + launch % 6};
    (void)run.policy.on_launch({KernelId{9}, {&named, 1}});
  }
  EXPECT_THAT(run.policy.learned().layer_bytes, SizeIs(6));
  EXPECT_EQ(run.policy.managed_limit(), 4 * 2_MiB);
}

TEST(LayerBoundReplay, FindsTheLayersOfAModelThatIsLoadedAnewAfterManyPasses) {
  EightLayers run(with_k(PolicyKind::kSuperpipeline, 4));
  run.run(100);
  for (std::uint32_t id = 2; id < 10; ++id) {
    run.policy.on_free(BufferId{id});
    run.policy.on_allocate(BufferId{id}, 16_MiB, 4);
  }
  run.run(8);
  EXPECT_THAT(run.policy.learned().layer_bytes, SizeIs(8));
  EXPECT_EQ(run.policy.managed_limit(), 4 * 16_MiB + 2_MiB);
}

TEST(LayerBoundReplay, CountsABufferAsGoneOnceWhateverComesUnderItsId) {
  EightLayers run(with_k(PolicyKind::kSuperpipeline, 4));
  run.run(4);
  for (int time = 0; time < 6; ++time) {
    run.policy.on_free(BufferId{5});
    run.policy.on_free(BufferId{77});
    run.policy.on_allocate(BufferId{5}, 16_MiB, 4);
    EXPECT_EQ(run.policy.layer_of(BufferId{5}), std::nullopt);
  }
  run.run(1);
  EXPECT_THAT(run.policy.learned().layer_bytes, SizeIs(8)) << "seven are live";
  EXPECT_EQ(run.policy.managed_limit(), 4 * 16_MiB + 2_MiB);
}

TEST(LayerBoundReplay, StaysAtKOfTheLargestLaunchWhereThereAreNoLayers) {
  LayerBoundReplay policy(with_k(PolicyKind::kSuperpipeline, 3));
  const BufferId named{0};
  policy.on_allocate(named, 16_MiB, 1);
  for (std::uint64_t launch = 0; launch < 200; ++launch) {
    (void)policy.on_launch({KernelId{launch % 5}, {&named, 1}});
  }
  EXPECT_GT(policy.learned().passes, 10U);
  EXPECT_FALSE(policy.learned().layers_known);
  EXPECT_EQ(policy.outline().k, 0);
  EXPECT_EQ(policy.managed_limit(), 3 * 16_MiB);
}

TEST(LayerBoundReplay, ForgetsALaunchThatWasWideOnce) {
  EightLayers run(with_k(PolicyKind::kSuperpipeline, 2));
  run.run(3);
  const Bytes limit = run.policy.managed_limit();
  run.policy.on_allocate(BufferId{100}, 100_MiB, 4);
  const BufferId wide{100};
  (void)run.policy.on_launch({KernelId{9}, {&wide, 1}});
  EXPECT_EQ(run.policy.managed_limit(), 100_MiB);
  run.run(40);
  EXPECT_EQ(run.policy.managed_limit(), limit);
}

TEST(LayerBoundReplay, CountsALayerOnceThatForwardAndBackwardName) {
  PolicyConfig config = with_k(PolicyKind::kSuperpipeline, 3);
  LayerBoundReplay policy(config);
  const Program program = training_program(12);
  for (std::uint32_t id = 0; id < program.footprints.size(); ++id) {
    policy.on_allocate(BufferId{id}, program.footprints[id], 4);
  }
  for (int pass = 0; pass < 5; ++pass) {
    for (const ScriptLaunch& launched : program.pass) {
      (void)policy.on_launch({launched.kernel, launched.buffers});
    }
  }
  EXPECT_THAT(policy.learned().layer_bytes, SizeIs(12));
  EXPECT_GE(policy.managed_limit(), 3 * 32_MiB);
  EXPECT_LE(policy.managed_limit(), 3 * 32_MiB + 2_MiB);
}

TEST(LayerBoundReplay, KeepsItsLayersWhenASmallerModelRuns) {
  EightLayers run(with_k(PolicyKind::kSuperpipeline, 4));
  run.run(3);
  const Bytes limit = run.policy.managed_limit();
  for (std::uint32_t id = 100; id < 106; ++id) run.policy.on_allocate(BufferId{id}, 1_MiB, 1);
  for (std::uint32_t launch = 0; launch < 40 * 6; ++launch) {
    const BufferId named{100 + launch % 6};
    (void)run.policy.on_launch({KernelId{9}, {&named, 1}});
  }
  EXPECT_EQ(run.policy.managed_limit(), limit);
  EXPECT_THAT(run.policy.learned().layer_bytes, SizeIs(8));
}

TEST(LayerBoundReplay, TakesTheLayersOfALargerModelThatRunsLater) {
  EightLayers run(with_k(PolicyKind::kSuperpipeline, 4));
  run.run(3);
  for (std::uint32_t id = 100; id < 110; ++id) run.policy.on_allocate(BufferId{id}, 32_MiB, 1);
  for (std::uint32_t launch = 0; launch < 20 * 10; ++launch) {
    const BufferId named{100 + launch % 10};
    (void)run.policy.on_launch({KernelId{9}, {&named, 1}});
  }
  EXPECT_EQ(run.policy.managed_limit(), 4 * 32_MiB);
  EXPECT_THAT(run.policy.learned().layer_bytes, SizeIs(10));
}

TEST(LayerBoundReplay, HasRoomForTheLargestLaunch) {
  EightLayers run(with_k(PolicyKind::kSuperpipeline, 2));
  run.run(3);
  run.policy.on_allocate(BufferId{100}, 100_MiB, 4);
  const std::array named = {BufferId{100}, BufferId{2}};
  (void)run.policy.on_launch({KernelId{9}, named});
  EXPECT_EQ(run.policy.managed_limit(), 116_MiB);
}

TEST(LayerBoundReplay, TakesTheBudgetWhateverLayersFit) {
  EightLayers run(with_budget(PolicyKind::kSuperpipeline, 77_MiB));
  run.run(3);
  EXPECT_EQ(run.policy.managed_limit(), 77_MiB);
  EXPECT_EQ(run.policy.learned().k, 4) << "so many of them";
  run.policy.set_available(45_MiB);
  run.run(1);
  EXPECT_EQ(run.policy.managed_limit(), 45_MiB);
  EXPECT_EQ(run.policy.learned().k, 2);
}

TEST(LayerBoundReplay, GivesUpWhatIsUsedLastOfAll) {
  EightLayers run(with_k(PolicyKind::kSuperpipeline, 4));
  run.run(3);
  for (std::size_t at = 0; at < 3; ++at) run.launch(at);
  const std::array candidates = {BufferId{3}, BufferId{4}, BufferId{5}, BufferId{9}};
  EXPECT_THAT(run.policy.choose_victims(candidates, 20_MiB), ElementsAre(BufferId{4}, BufferId{3}));
}

TEST(LayerBoundReplay, ForgetsABufferThatIsFreed) {
  EightLayers run(with_k(PolicyKind::kSuperpipeline, 4));
  run.run(3);
  const auto is_it = [](BufferId id) { return id == BufferId{5}; };
  run.policy.puller()->on_brought(BufferId{5});
  EXPECT_EQ(run.policy.puller()->next_victim(0, is_it), BufferId{5});
  run.policy.on_free(BufferId{5});
  EXPECT_EQ(run.policy.layer_of(BufferId{5}), std::nullopt);
  EXPECT_EQ(run.policy.puller()->next_victim(0, is_it), std::nullopt);
}

}  // namespace
}  // namespace superpipe
