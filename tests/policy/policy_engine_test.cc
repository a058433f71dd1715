#include "policy/policy_engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "tests/policy/programs.h"

namespace superpipe {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(PolicyName, RoundTripsForEveryKind) {
  for (const PolicyKind kind :
       {PolicyKind::kResident, PolicyKind::kNaive, PolicyKind::kSuperpipeline,
        PolicyKind::kSuperpipelinePaper, PolicyKind::kLru, PolicyKind::kAuto}) {
    EXPECT_EQ(policy_from_name(name_of(kind)), kind);
  }
  EXPECT_EQ(name_of(PolicyKind::kSuperpipelinePaper), "superpipeline-paper");
  EXPECT_EQ(policy_from_name("belady"), std::nullopt);
  EXPECT_EQ(policy_from_name(""), std::nullopt);
}

TEST(PolicyEngine, OfAutoAndLruIsAskedAndDecidesNothingItself) {
  for (const PolicyKind kind : {PolicyKind::kAuto, PolicyKind::kLru}) {
    PolicyConfig config;
    config.kind = kind;
    config.budget = 3_MiB;
    PolicyEngine engine(config);
    ASSERT_NE(engine.puller(), nullptr);
    for (std::uint32_t id = 0; id < 8; ++id) {
      engine.on_allocate(BufferId{id}, 1_MiB);
      engine.on_host_write(BufferId{id});
    }
    for (std::uint32_t launch = 0; launch < 80; ++launch) {
      const BufferId named{launch % 8};
      EXPECT_TRUE(engine.on_launch(Access{KernelId{1}, {&named, 1}}).empty());
    }
    EXPECT_EQ(engine.managed_limit(), 3_MiB);
    EXPECT_FALSE(engine.learned().layers_known);
    EXPECT_EQ(engine.puller()->next_target().has_value(), kind == PolicyKind::kAuto);
  }
  EXPECT_EQ(PolicyEngine(with_k(PolicyKind::kSuperpipelinePaper, 4, 2)).puller(), nullptr);
}

TEST(PolicyEngine, LearnsAForwardPassOnceItHasSeenAWholeOneAgain) {
  PolicyEngine engine(with_k(PolicyKind::kSuperpipelinePaper, 4, 2));
  ObedientResidency residency(engine);
  const Program program = forward_program(32);
  residency.load(program);
  residency.run(program, 2);
  EXPECT_FALSE(engine.learned().layers_known);
  residency.run(program);
  EXPECT_TRUE(engine.learned().layers_known);
  EXPECT_THAT(engine.learned().layer_bytes, SizeIs(32));
  EXPECT_THAT(engine.learned().layer_bytes, Each(16_MiB));
  EXPECT_EQ(engine.learned().k, 4);
  EXPECT_EQ(engine.learned().k_prime, 2);
  EXPECT_EQ(engine.learned().largest_piece, 16_MiB);
}

TEST(PolicyEngine, FetchesEachLayerOncePerPassAndNothingOnDemandWhenSteady) {
  PolicyEngine engine(with_k(PolicyKind::kSuperpipelinePaper, 4, 2));
  ObedientResidency residency(engine);
  const Program program = forward_program(32);
  residency.load(program);
  residency.run(program, 4);
  residency.reset_counters();
  residency.run(program, 10);
  EXPECT_EQ(residency.demand_fetches, 0U);
  EXPECT_EQ(residency.fetches, 320U);
  EXPECT_EQ(residency.peak, 4 * 16_MiB + 2_MiB);
  EXPECT_EQ(engine.managed_limit(), 4 * 16_MiB + 2_MiB);
  EXPECT_EQ(residency.jumps(), 0U);
  EXPECT_THAT(residency.violations, IsEmpty());
}

TEST(PolicyEngine, NeverExceedsItsLimitFromTheFirstLaunch) {
  PolicyEngine engine(with_k(PolicyKind::kSuperpipelinePaper, 4, 2));
  ObedientResidency residency(engine);
  const Program program = forward_program(32);
  residency.load(program);
  residency.run(program, 6);
  EXPECT_LE(residency.peak, 4 * 16_MiB + 2_MiB + 16_MiB);
  EXPECT_THAT(residency.violations, IsEmpty());
}

TEST(PolicyEngine, CountsPassesAndSaysWhereTheyBegin) {
  PolicyEngine engine(with_k(PolicyKind::kSuperpipelinePaper, 2, 1));
  ObedientResidency residency(engine);
  const Program program = forward_program(6);
  residency.load(program);
  residency.run(program, 3);
  const std::size_t before = engine.learned().passes;
  // A pass start is known some launches late.
  for (int pass = 0; pass < 5; ++pass) {
    for (std::size_t at = 0; at < program.pass.size(); ++at) {
      residency.launch(program.pass[at].kernel, program.pass[at].buffers);
      EXPECT_EQ(engine.learned().at_pass_start, at == LaunchReplay::kForesight) << pass;
      EXPECT_EQ(engine.at_pass_start(), engine.learned().at_pass_start);
    }
  }
  EXPECT_EQ(engine.learned().passes, before + 5);
}

TEST(PolicyEngine, OfAutoTellsPassesFromItsReplay) {
  PolicyConfig config;
  config.kind = PolicyKind::kAuto;
  config.budget = 64_MiB;
  PolicyEngine engine(config);
  for (std::uint32_t id = 0; id < 8; ++id) engine.on_allocate(BufferId{id}, 1_MiB);
  std::vector<std::uint64_t> starts;
  for (std::uint32_t launch = 0; launch < 48; ++launch) {
    const BufferId named{launch % 8};
    (void)engine.on_launch(Access{KernelId{1}, {&named, 1}});
    EXPECT_EQ(engine.present(), launch);
    EXPECT_EQ(engine.learned().at_pass_start, engine.at_pass_start());
    if (engine.at_pass_start()) starts.push_back(engine.present());
  }
  ASSERT_GE(starts.size(), 4U);
  EXPECT_EQ(starts[3], starts[2] + 8);
  EXPECT_EQ(engine.learned().passes, starts.size() - 1);
  EXPECT_EQ(engine.learned().launches, nullptr) << "its replay remembers them";
  ASSERT_NE(engine.replay().pass(starts[1], starts[2]), nullptr);
  EXPECT_EQ(engine.replay().pass(starts[1], starts[2])->size(), 8U);
}

TEST(PolicyEngine, ReplacesAllLayersAndWaitsWhenNaive) {
  PolicyEngine engine(with_k(PolicyKind::kNaive, 2));
  ObedientResidency residency(engine);
  const Program program = forward_program(5);
  residency.load(program);
  residency.run(program, 4);
  const auto launch = [&](std::size_t at) {
    return residency.launch(program.pass[at].kernel, program.pass[at].buffers);
  };
  Decision decision = launch(0);
  EXPECT_THAT(decision.evict, ElementsAre(BufferId{6}));  // the odd one out
  EXPECT_THAT(decision.fetch, ElementsAre(BufferId{2}, BufferId{3}));
  EXPECT_TRUE(decision.fetch_before_launch);
  EXPECT_TRUE(launch(1).empty());
  decision = launch(2);
  EXPECT_THAT(decision.evict, ElementsAre(BufferId{2}, BufferId{3}));
  EXPECT_THAT(decision.fetch, ElementsAre(BufferId{4}, BufferId{5}));
  EXPECT_TRUE(launch(3).empty());
  decision = launch(4);
  EXPECT_THAT(decision.fetch, ElementsAre(BufferId{6}));
  EXPECT_TRUE(decision.fetch_before_launch);
}

TEST(PolicyEngine, LoadsFirstLayersOfEachPassAndWaitsWhenAsPublished) {
  PolicyEngine engine(with_k(PolicyKind::kSuperpipelinePaper, 2, 1));
  ObedientResidency residency(engine);
  const Program program = forward_program(4);
  residency.load(program);
  residency.run(program, 4);
  const auto launch = [&](std::size_t at) {
    return residency.launch(program.pass[at].kernel, program.pass[at].buffers);
  };
  Decision decision = launch(0);
  EXPECT_THAT(decision.evict, ElementsAre(BufferId{5}));
  EXPECT_THAT(decision.fetch, ElementsAre(BufferId{2}, BufferId{3}));
  EXPECT_TRUE(decision.fetch_before_launch);
  decision = launch(1);
  EXPECT_THAT(decision.fetch, ElementsAre(BufferId{4}));
  EXPECT_FALSE(decision.fetch_before_launch);
  launch(2);
  decision = launch(3);
  EXPECT_THAT(decision.evict, ElementsAre(BufferId{4}));
  EXPECT_THAT(decision.fetch, IsEmpty());  // nothing of the next pass
}

TEST(PolicyEngine, IsNaiveAsPublishedWithOneLayer) {
  PolicyEngine engine(with_k(PolicyKind::kSuperpipelinePaper, 1));
  ObedientResidency residency(engine);
  const Program program = forward_program(4);
  residency.load(program);
  residency.run(program, 4);
  const Decision decision = residency.launch(program.pass[0].kernel, program.pass[0].buffers);
  EXPECT_THAT(decision.evict, ElementsAre(BufferId{5}));
  EXPECT_THAT(decision.fetch, ElementsAre(BufferId{2}));
  EXPECT_TRUE(decision.fetch_before_launch);
  EXPECT_EQ(engine.learned().k, 1);
}

TEST(PolicyEngine, DecidesNothingWhenAllLayersMayStay) {
  for (const PolicyKind kind : {PolicyKind::kResident, PolicyKind::kNaive,
                                PolicyKind::kSuperpipeline, PolicyKind::kSuperpipelinePaper}) {
    PolicyEngine engine(with_k(kind, 6));
    ObedientResidency residency(engine);
    const Program program = forward_program(6);
    residency.load(program);
    residency.run(program, 6);
    EXPECT_EQ(residency.fetches + residency.evictions, 0U) << name_of(kind);
    EXPECT_EQ(engine.learned().layers_known, counts_layers(kind));
    EXPECT_EQ(engine.learned().k, counts_layers(kind) ? 6 : 0);
  }
}

TEST(PolicyEngine, PromisesNothingAndHasNoLimitWhenResident) {
  PolicyEngine engine(PolicyConfig{});
  EXPECT_FALSE(engine.limit_is_hard());
  EXPECT_EQ(engine.managed_limit(), Bytes{std::numeric_limits<std::uint64_t>::max()});
}

TEST(PolicyEngine, LimitsToKTimesTheLargestNeedBeforeLayersAreKnown) {
  PolicyEngine engine(with_k(PolicyKind::kSuperpipelinePaper, 3));
  engine.on_allocate(BufferId{0}, 8_MiB);
  EXPECT_EQ(engine.managed_limit(), 24_MiB);
  engine.on_allocate(BufferId{1}, 4_MiB);
  EXPECT_EQ(engine.managed_limit(), 24_MiB);
  const std::vector<BufferId> both = {BufferId{0}, BufferId{1}};
  EXPECT_TRUE(engine.on_launch({KernelId{1}, both}).empty());
  EXPECT_EQ(engine.managed_limit(), 36_MiB);
  EXPECT_FALSE(engine.limit_is_hard());
}

TEST(PolicyEngine, GroupsThirtyTwoLayersWhenLlamaLike) {
  PolicyEngine engine(with_k(PolicyKind::kSuperpipelinePaper, 4, 2));
  ObedientResidency residency(engine);
  const Program program = llama_program(32);
  residency.load(program);
  residency.run(program, 4);
  ASSERT_TRUE(engine.learned().layers_known);
  const std::vector<Bytes>& layers = engine.learned().layer_bytes;
  EXPECT_THAT(layers, SizeIs(32));
  EXPECT_EQ(std::count(layers.begin(), layers.end(), 388_MiB), 30) << "and two at the ends";
  residency.reset_counters();
  residency.run(program, 4);
  EXPECT_EQ(residency.demand_fetches, 0U);
  EXPECT_EQ(residency.fetches, 4U * (32 * 9 + 3));
  EXPECT_THAT(residency.violations, IsEmpty());
}

TEST(PolicyEngine, TellsInOutlineWhatItLearned) {
  PolicyEngine engine(with_k(PolicyKind::kSuperpipelinePaper, 4, 2));
  ObedientResidency residency(engine);
  const Program program = forward_program(32);
  residency.load(program);
  residency.run(program);
  EXPECT_EQ(engine.outline().layers, 0U);
  EXPECT_EQ(engine.outline().pass_bytes, Bytes{});
  const BufferId weight_of_third = program.pass[2].buffers[0];
  const BufferId activation = program.pass[2].buffers[1];
  EXPECT_EQ(engine.layer_of(weight_of_third), std::nullopt);
  residency.run(program, 2);
  const PolicyEngine::Outline outline = engine.outline();
  EXPECT_EQ(outline.layers, 32U);
  EXPECT_EQ(outline.k, 4);
  EXPECT_EQ(outline.k_prime, 2);
  EXPECT_EQ(outline.pass_bytes, engine.learned().pass_bytes);
  EXPECT_EQ(engine.layer_of(weight_of_third), std::optional<std::size_t>(2));
  EXPECT_EQ(engine.layer_of(activation), std::nullopt);
  EXPECT_EQ(engine.layer_of(BufferId{100'000}), std::nullopt);
}

TEST(PolicyEngine, PutsGradientsAndMomentsIntoTheirLayersWhenTraining) {
  PolicyEngine engine(with_k(PolicyKind::kSuperpipelinePaper, 3, 1));
  ObedientResidency residency(engine);
  const Program program = training_program(12);
  residency.load(program);
  residency.run(program, 5);
  ASSERT_TRUE(engine.learned().layers_known);
  EXPECT_THAT(engine.learned().layer_bytes, SizeIs(12));
  EXPECT_THAT(engine.learned().layer_bytes, Each(32_MiB));
  residency.reset_counters();
  residency.run(program, 4);
  EXPECT_EQ(residency.demand_fetches, 0U);
  EXPECT_LE(residency.peak, 3 * 32_MiB + 1_MiB);
  EXPECT_EQ(residency.jumps(), 0U);
}

TEST(PolicyEngine, RegroupsBuffersThatTheFirstPassAllocated) {
  // Optimizer states appear at the first update, after the weights have been used.
  PolicyEngine engine(with_k(PolicyKind::kSuperpipelinePaper, 3, 1));
  ObedientResidency residency(engine);
  const Program program = training_program(8);
  for (std::uint32_t id = 0; id < 9; ++id) {
    residency.allocate(BufferId{id}, program.footprints[id]);
    if (id > 0) engine.on_host_write(BufferId{id});
  }
  std::set<std::uint32_t> allocated;
  for (const ScriptLaunch& launch : program.pass) {
    for (const BufferId id : launch.buffers) {
      if (index_of(id) < 9 || !allocated.insert(index_of(id)).second) continue;
      residency.allocate(id, program.footprints[index_of(id)]);
    }
    residency.launch(launch.kernel, launch.buffers);
  }
  residency.run(program, 1);
  ASSERT_TRUE(engine.learned().layers_known);
  residency.run(program, 3);
  EXPECT_THAT(engine.learned().layer_bytes, SizeIs(8));
  EXPECT_THAT(engine.learned().layer_bytes, Each(32_MiB));
  residency.reset_counters();
  residency.run(program, 3);
  EXPECT_EQ(residency.demand_fetches, 0U);
}

TEST(PolicyEngine, LearnsPassWhoseWeightsWereMadeOnTheDevice) {
  PolicyEngine engine(with_k(PolicyKind::kSuperpipelinePaper, 4, 2));
  ObedientResidency residency(engine);
  Program program = forward_program(32);
  program.host_written.clear();
  residency.load(program);
  for (std::uint32_t id = 2; id < 34; ++id) residency.launch(KernelId{99}, {BufferId{id}});
  residency.run(program, 6);
  ASSERT_TRUE(engine.learned().layers_known);
  EXPECT_THAT(engine.learned().layer_bytes, SizeIs(32));
  residency.reset_counters();
  residency.run(program, 3);
  EXPECT_EQ(residency.demand_fetches, 0U);
}

TEST(PolicyEngine, SurvivesOneOffLaunchesBeforeTheLoop) {
  PolicyEngine engine(with_k(PolicyKind::kSuperpipelinePaper, 2, 1));
  ObedientResidency residency(engine);
  const Program program = forward_program(6);
  residency.load(program);
  for (std::uint32_t id = 7; id >= 2; --id) residency.launch(KernelId{50 + id}, {BufferId{id}});
  residency.launch(KernelId{90}, {BufferId{4}, BufferId{0}});
  residency.run(program, 4);
  ASSERT_TRUE(engine.learned().layers_known);
  EXPECT_THAT(engine.learned().layer_bytes, SizeIs(6));
  residency.reset_counters();
  residency.run(program, 3);
  EXPECT_EQ(residency.demand_fetches, 0U);
  EXPECT_EQ(residency.jumps(), 0U);
}

TEST(PolicyEngine, TakesOtherKernelsOnTheSameLayersForTheSameOrder) {
  // Attention kernels change with the sequence length; layers do not.
  PolicyEngine engine(with_k(PolicyKind::kSuperpipelinePaper, 2, 1));
  ObedientResidency residency(engine);
  Program program = forward_program(6);
  residency.load(program);
  residency.run(program, 4);
  for (ScriptLaunch& launch : program.pass) launch.kernel = KernelId{1234};
  residency.reset_counters();
  residency.run(program, 4);
  EXPECT_EQ(residency.demand_fetches, 0U);
  EXPECT_THAT(engine.learned().layer_bytes, SizeIs(6));
}

TEST(PolicyEngine, ResynchronisesWhenLayersAreSkippedOnce) {
  PolicyEngine engine(with_k(PolicyKind::kSuperpipelinePaper, 4, 2));
  ObedientResidency residency(engine);
  const Program program = forward_program(16);
  residency.load(program);
  residency.run(program, 4);
  for (const std::size_t at : {0U, 1U, 2U, 9U, 10U, 11U, 12U, 13U, 14U, 15U}) {
    residency.launch(program.pass[at].kernel, program.pass[at].buffers);
  }
  EXPECT_GT(residency.jumps(), 0U);
  EXPECT_TRUE(engine.learned().layers_known);
  residency.reset_counters();
  residency.run(program, 3);
  EXPECT_EQ(residency.demand_fetches, 0U);
  EXPECT_EQ(residency.jumps(), 0U);
  EXPECT_LE(residency.peak, 4 * 16_MiB + 2_MiB);
}

TEST(PolicyEngine, FetchesTheWindowOfTheLayerThatWasJumpedTo) {
  PolicyEngine engine(with_k(PolicyKind::kSuperpipelinePaper, 4, 2));
  ObedientResidency residency(engine);
  const Program program = forward_program(16);  // weights 2 to 17
  residency.load(program);
  residency.run(program, 4);
  residency.launch(program.pass[0].kernel, program.pass[0].buffers);
  Decision decision = residency.launch(program.pass[9].kernel, program.pass[9].buffers);
  EXPECT_TRUE(decision.empty()) << "it may be a stray launch";
  decision = residency.launch(program.pass[10].kernel, program.pass[10].buffers);
  EXPECT_THAT(decision.fetch, ElementsAre(BufferId{12}, BufferId{13}, BufferId{14}, BufferId{15}));
}

TEST(PolicyEngine, LeavesTheWindowWhereItIsForAStrayLaunch) {
  PolicyEngine engine(with_k(PolicyKind::kSuperpipelinePaper, 4, 2));
  ObedientResidency residency(engine);
  const Program program = forward_program(16);
  residency.load(program);
  residency.run(program, 4);
  residency.reset_counters();
  for (int pass = 0; pass < 3; ++pass) {
    for (std::size_t at = 0; at < 16; ++at) {
      residency.launch(program.pass[at].kernel, program.pass[at].buffers);
      if (at == 3) residency.launch(program.pass[9].kernel, program.pass[9].buffers);
    }
  }
  EXPECT_LE(residency.demand_fetches, 2U * 3U) << "the stray launch's buffer, and what went for it";
  EXPECT_LE(residency.fetches, (16U + 1U) * 3U);
}

TEST(PolicyEngine, KeepsWhatTheLaunchNamesThoughItsLayerLeaves) {
  PolicyEngine engine(with_k(PolicyKind::kSuperpipelinePaper, 2, 1));
  ObedientResidency residency(engine);
  Program program;
  for (int i = 0; i < 8; ++i) program.launch(7, {program.add(16_MiB), program.add(1_MiB)});
  residency.load(program);
  residency.run(program, 4);
  residency.launch(program.pass[0].kernel, program.pass[0].buffers);
  // Once, layer 1's launch names the small buffer of layer 0, which is to be evicted now.
  const Decision decision = residency.launch(KernelId{7}, {BufferId{2}, BufferId{3}, BufferId{1}});
  EXPECT_THAT(decision.evict, ElementsAre(BufferId{0}));
  EXPECT_TRUE(residency.is_resident(BufferId{1}));
  // It goes with the next.
  const Decision next = residency.launch(program.pass[2].kernel, program.pass[2].buffers);
  EXPECT_THAT(next.evict, ::testing::UnorderedElementsAre(BufferId{1}, BufferId{2}, BufferId{3}));
}

TEST(PolicyEngine, TakesNoShortCycleInsideThePassForThePass) {
  // Only the embedding and two small tables come from the host; the tables are used in turns.
  PolicyEngine engine(with_k(PolicyKind::kSuperpipelinePaper, 4, 2));
  ObedientResidency residency(engine);
  Program program;
  const BufferId x = program.add(1_MiB, false);
  const BufferId cosine = program.add(1_MiB);
  const BufferId sine = program.add(1_MiB);
  program.launch(1, {program.add(64_MiB), x});
  for (int i = 0; i < 12; ++i) {
    program.launch(2, {cosine, x});
    program.launch(3, {program.add(16_MiB, false), x});
    program.launch(4, {sine, x});
  }
  residency.load(program);
  residency.run(program);
  EXPECT_FALSE(engine.learned().layers_known);
  residency.run(program, 6);
  ASSERT_TRUE(engine.learned().layers_known);
  EXPECT_THAT(engine.learned().layer_bytes, SizeIs(13));
}

TEST(PolicyEngine, IgnoresStragglerOfTheLayerBefore) {
  PolicyEngine engine(with_k(PolicyKind::kSuperpipelinePaper, 4, 2));
  ObedientResidency residency(engine);
  const Program program = forward_program(16);
  residency.load(program);
  residency.run(program, 4);
  for (const std::size_t at : {0U, 1U, 2U, 1U, 2U, 3U}) {
    residency.launch(program.pass[at].kernel, program.pass[at].buffers);
  }
  residency.reset_counters();
  for (std::size_t at = 4; at < 16; ++at) {
    residency.launch(program.pass[at].kernel, program.pass[at].buffers);
  }
  EXPECT_LE(residency.demand_fetches, 1U) << "of what went for the straggler";
}

TEST(PolicyEngine, LearnsAnewWhenTheOrderChanges) {
  PolicyEngine engine(with_k(PolicyKind::kSuperpipelinePaper, 2, 1));
  ObedientResidency residency(engine);
  Program program = forward_program(12);
  residency.load(program);
  residency.run(program, 4);
  std::reverse(program.pass.begin(), program.pass.end());
  residency.run(program, 8);
  ASSERT_TRUE(engine.learned().layers_known);
  EXPECT_GT(engine.learned().mispredictions, 0U);
  const std::size_t mispredictions = engine.learned().mispredictions;
  residency.reset_counters();
  residency.run(program, 4);
  EXPECT_EQ(residency.demand_fetches, 0U);
  EXPECT_EQ(engine.learned().mispredictions, mispredictions);
  EXPECT_THAT(residency.violations, IsEmpty());
}

TEST(PolicyEngine, ForgetsBuffersOfALayerThatAreFreed) {
  PolicyEngine engine(with_k(PolicyKind::kSuperpipelinePaper, 2, 1));
  ObedientResidency residency(engine);
  Program program = forward_program(8);
  residency.load(program);
  residency.run(program, 4);
  residency.free(BufferId{4});
  program.pass.erase(program.pass.begin() + 2);
  residency.run(program, 2);
  residency.reset_counters();
  residency.run(program, 3);
  EXPECT_EQ(engine.learned().pass_bytes, 7 * 16_MiB + 2_MiB);
  EXPECT_EQ(residency.demand_fetches, 0U);
  EXPECT_EQ(residency.jumps(), 0U);
  EXPECT_THAT(residency.violations, IsEmpty());
}

TEST(PolicyEngine, RemembersWhatItLearnedWhenTheProgramFreesAllAndEnds) {
  PolicyEngine engine(with_k(PolicyKind::kSuperpipelinePaper, 2, 1));
  ObedientResidency residency(engine);
  const Program program = forward_program(6);
  residency.load(program);
  residency.run(program, 5);
  for (std::uint32_t id = 0; id < program.footprints.size(); ++id) residency.free(BufferId{id});
  EXPECT_THAT(engine.learned().layer_bytes, SizeIs(6));
  EXPECT_THAT(engine.learned().layer_bytes, Each(16_MiB));
  EXPECT_EQ(engine.learned().k, 2);
}

TEST(PolicyEngine, SharesABufferThatAllLayersUse) {
  PolicyEngine engine(with_k(PolicyKind::kSuperpipelinePaper, 2, 1));
  ObedientResidency residency(engine);
  Program program = forward_program(8);
  const BufferId table = program.add(64_MiB);
  for (ScriptLaunch& launch : program.pass) launch.buffers.push_back(table);
  residency.load(program);
  residency.run(program, 4);
  EXPECT_THAT(engine.learned().layer_bytes, Each(16_MiB));
  residency.reset_counters();
  residency.run(program, 3);
  EXPECT_EQ(residency.fetches_of.count(index_of(table)), 0U);
  EXPECT_EQ(engine.managed_limit(), 2 * 16_MiB + 64_MiB + 2_MiB);
}

}  // namespace
}  // namespace superpipe
