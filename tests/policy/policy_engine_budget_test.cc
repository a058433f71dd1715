// PolicyEngine under a budget: how wide its windows are, and which buffers it gives up.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "policy/policy_engine.h"
#include "tests/policy/programs.h"

namespace superpipe {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(PolicyEngine, ChoosesTheLargestKThatFitsTheBudget) {
  const Program program = forward_program(16);
  PolicyEngine engine(with_budget(PolicyKind::kSuperpipelinePaper, 5 * 16_MiB + 2_MiB + 3_MiB));
  EXPECT_TRUE(engine.limit_is_hard());
  engine.on_passthrough_bytes(3_MiB);
  ObedientResidency residency(engine);
  residency.load(program);
  residency.run(program, 4);
  EXPECT_EQ(engine.learned().k, 5);
  EXPECT_EQ(engine.learned().k_prime, 2);
  EXPECT_EQ(engine.managed_limit(), 5 * 16_MiB + 2_MiB);
  EXPECT_LE(residency.peak, engine.managed_limit());
  residency.reset_counters();
  residency.run(program, 3);
  EXPECT_EQ(residency.demand_fetches, 0U);
}

TEST(PolicyEngine, ChoosesSmallerKWhenPassThroughBytesGrow) {
  const Program program = forward_program(16);
  PolicyEngine engine(with_budget(PolicyKind::kSuperpipelinePaper, 6 * 16_MiB + 2_MiB));
  ObedientResidency residency(engine);
  residency.load(program);
  residency.run(program, 4);
  EXPECT_EQ(engine.learned().k, 6);
  engine.on_passthrough_bytes(20_MiB);
  residency.run(program, 1);
  EXPECT_EQ(engine.learned().k, 4);
  EXPECT_LE(residency.resident_bytes(), engine.managed_limit());
  engine.on_passthrough_bytes(Bytes{});
  residency.run(program, 2);
  EXPECT_EQ(engine.learned().k, 6);
}

TEST(PolicyEngine, IsNaiveWithOneLayerWhenTheBudgetHoldsNoTwo) {
  const Program program = forward_program(8);
  PolicyEngine engine(with_budget(PolicyKind::kSuperpipelinePaper, 24_MiB));
  ObedientResidency residency(engine);
  residency.load(program);
  residency.run(program, 4);
  EXPECT_EQ(engine.learned().k, 1);
  EXPECT_LE(residency.peak, 24_MiB);
}

TEST(PolicyEngine, MovesNothingWhenTheBudgetHoldsAll) {
  const Program program = forward_program(8);
  PolicyEngine engine(with_budget(PolicyKind::kSuperpipelinePaper, program.total()));
  ObedientResidency residency(engine);
  residency.load(program);
  residency.run(program, 6);
  EXPECT_EQ(residency.fetches + residency.evictions, 0U);
  EXPECT_EQ(engine.learned().k, 8);
}

TEST(PolicyEngine, CountsTransientsBesideTheWindow) {
  PolicyEngine engine(with_k(PolicyKind::kSuperpipelinePaper, 2, 1));
  ObedientResidency residency(engine);
  const Program program = forward_program(8);
  residency.load(program);
  for (int pass = 0; pass < 5; ++pass) {
    for (const ScriptLaunch& launch : program.pass) {
      residency.allocate(BufferId{100}, 5_MiB);
      std::vector<BufferId> buffers = launch.buffers;
      buffers.push_back(BufferId{100});
      residency.launch(launch.kernel, buffers);
      residency.free(BufferId{100});
    }
  }
  EXPECT_THAT(engine.learned().layer_bytes, SizeIs(8));
  EXPECT_EQ(engine.managed_limit(), 2 * 16_MiB + 2_MiB + 5_MiB);
}

TEST(ChooseVictims, TakesLeastRecentlyUsedWhenNothingIsKnown) {
  PolicyEngine engine(with_k(PolicyKind::kSuperpipelinePaper, 2));
  std::vector<BufferId> all;
  for (std::uint32_t id = 0; id < 4; ++id) {
    engine.on_allocate(BufferId{id}, 4_MiB);
    all.push_back(BufferId{id});
  }
  for (const std::uint32_t id : {2U, 0U, 3U, 1U}) {
    const std::vector<BufferId> one = {BufferId{id}};
    (void)engine.on_launch({KernelId{id}, one});
  }
  EXPECT_THAT(engine.choose_victims(all, 5_MiB), ElementsAre(BufferId{2}, BufferId{0}));
  EXPECT_THAT(engine.choose_victims(all, 100_MiB), SizeIs(4));
  EXPECT_THAT(engine.choose_victims(all, Bytes{}), IsEmpty());
}

TEST(ChooseVictims, TakesFurthestNextUseWhenTheOrderIsKnown) {
  PolicyEngine engine(with_k(PolicyKind::kSuperpipelinePaper, 2, 1));
  ObedientResidency residency(engine);
  const Program program = forward_program(8);  // weights 2 to 9
  residency.load(program);
  residency.run(program, 4);
  for (std::size_t at = 0; at < 4; ++at) {
    residency.launch(program.pass[at].kernel, program.pass[at].buffers);
  }
  // Layer 3 (buffer 5) runs, 4 (buffer 6) is in the window. Layer 2 (buffer 4) comes last again of
  // those outside it.
  std::vector<BufferId> all;
  for (std::uint32_t id = 0; id < 10; ++id) all.push_back(BufferId{id});
  EXPECT_THAT(
      engine.choose_victims(all, 6 * 16_MiB),
      ElementsAre(BufferId{4}, BufferId{3}, BufferId{2}, BufferId{9}, BufferId{8}, BufferId{7}));
  const std::vector<BufferId> window = {BufferId{6}, BufferId{0}, BufferId{5}};
  EXPECT_THAT(engine.choose_victims(window, 1_MiB), ElementsAre(BufferId{5})) << "it has run";
}

TEST(ChooseVictims, TakesAnIdleTransientFirst) {
  PolicyEngine engine(with_k(PolicyKind::kSuperpipelinePaper, 2, 1));
  ObedientResidency residency(engine);
  const Program program = forward_program(8);
  residency.load(program);
  residency.allocate(BufferId{50}, 16_MiB);
  residency.launch(KernelId{70}, {BufferId{50}});
  residency.run(program, 4);
  const std::vector<BufferId> candidates = {BufferId{4}, BufferId{50}, BufferId{9}};
  EXPECT_THAT(engine.choose_victims(candidates, 16_MiB), ElementsAre(BufferId{50}));
}

}  // namespace
}  // namespace superpipe
