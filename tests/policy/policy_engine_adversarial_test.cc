// Programs that are not what policy hopes for: only safety is asked of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "policy/policy_engine.h"
#include "tests/policy/programs.h"
#include "tests/policy/properties.h"

namespace superpipe {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

std::vector<PolicyConfig> all_configs() {
  return {PolicyConfig{},
          with_k(PolicyKind::kNaive, 1),
          with_k(PolicyKind::kNaive, 3),
          with_k(PolicyKind::kSuperpipelinePaper, 2, 1),
          with_k(PolicyKind::kSuperpipelinePaper, 4, 3),
          with_k(PolicyKind::kSuperpipelinePaper, 4, 2),
          with_budget(PolicyKind::kSuperpipelinePaper, 200_MiB),
          with_budget(PolicyKind::kNaive, 120_MiB)};
}

TEST(AdversarialProgram, LayersOfDifferentSizesStayWithinTheLimit) {
  Program program;
  const BufferId x = program.add(1_MiB, false);
  for (std::uint64_t i = 0; i < 24; ++i) {
    program.launch(i % 5, {program.add(Bytes{(1 + i * 7 % 11) << 20}), x});
  }
  for (const PolicyConfig& config : all_configs()) {
    PolicyEngine engine(config);
    ObedientResidency residency(engine);
    residency.load(program);
    residency.run(program, 4);
    residency.reset_counters();
    residency.run(program, 4);
    EXPECT_THAT(residency.violations, IsEmpty());
    EXPECT_LE(residency.peak, engine.managed_limit());
    EXPECT_EQ(residency.demand_fetches, 0U);
    EXPECT_EQ(engine.learned().layers_known, counts_layers(config.kind));
  }
}

TEST(AdversarialProgram, BufferTiedToFirstAndLastLayerIsThereForBoth) {
  Program program;
  const BufferId x = program.add(1_MiB, false);
  const BufferId embedding = program.add(40_MiB);
  program.launch(1, {embedding, x});
  for (int i = 0; i < 10; ++i) program.launch(2, {program.add(16_MiB), x});
  program.launch(3, {embedding, x});
  for (const PolicyConfig& config : all_configs()) {
    PolicyEngine engine(config);
    ObedientResidency residency(engine);
    residency.load(program);
    residency.run(program, 5);
    residency.reset_counters();
    residency.run(program, 4);
    EXPECT_THAT(residency.violations, IsEmpty());
    EXPECT_EQ(residency.demand_fetches, 0U);
    EXPECT_EQ(residency.jumps(), 0U);
    EXPECT_THAT(engine.learned().layer_bytes, SizeIs(counts_layers(config.kind) ? 11 : 0));
  }
}

TEST(AdversarialProgram, LaunchOfAllLayersGetsAllOfThem) {
  // A fused optimizer: one launch names every weight.
  Program program = forward_program(8);
  std::vector<BufferId> all;
  for (std::uint32_t id = 2; id < 10; ++id) all.push_back(BufferId{id});
  program.launch(9, all);
  for (const PolicyConfig& config : all_configs()) {
    PolicyEngine engine(config);
    ObedientResidency residency(engine);
    residency.load(program);
    residency.run(program, 6);
    EXPECT_THAT(residency.violations, IsEmpty());
    for (const BufferId id : all) EXPECT_TRUE(residency.is_resident(id));
  }
}

TEST(AdversarialProgram, TwoModelsInTurnsAreOnePass) {
  const Program first = forward_program(6);
  Program program = first;
  const Program second = forward_program(9, 8_MiB);
  const auto shift = static_cast<std::uint32_t>(program.footprints.size());
  program.footprints.insert(program.footprints.end(), second.footprints.begin(),
                            second.footprints.end());
  for (const std::uint32_t id : second.host_written) program.host_written.insert(id + shift);
  for (ScriptLaunch launch : second.pass) {
    for (BufferId& id : launch.buffers) id = BufferId{index_of(id) + shift};
    program.pass.push_back(launch);
  }
  PolicyEngine engine(with_k(PolicyKind::kSuperpipelinePaper, 4, 2));
  ObedientResidency residency(engine);
  residency.load(program);
  residency.run(program, 4);
  EXPECT_THAT(engine.learned().layer_bytes, SizeIs(15));
  residency.reset_counters();
  residency.run(program, 4);
  EXPECT_EQ(residency.demand_fetches, 0U);
  EXPECT_THAT(residency.violations, IsEmpty());
}

TEST(AdversarialProgram, SecondModelThatStartsLateIsLearnedToo) {
  const Program first = forward_program(8);
  const Program second = forward_program(12);
  PolicyEngine engine(with_k(PolicyKind::kSuperpipelinePaper, 4, 2));
  ObedientResidency residency(engine);
  residency.load(first);
  residency.load(second, 100);
  residency.run(first, 6);
  const auto run_second = [&] {
    for (const ScriptLaunch& launch : second.pass) {
      std::vector<BufferId> buffers;
      for (const BufferId id : launch.buffers) buffers.push_back(BufferId{index_of(id) + 100});
      residency.launch(launch.kernel, buffers);
    }
  };
  for (int pass = 0; pass < 8; ++pass) run_second();
  EXPECT_THAT(engine.learned().layer_bytes, SizeIs(12));
  residency.reset_counters();
  for (int pass = 0; pass < 4; ++pass) run_second();
  EXPECT_EQ(residency.demand_fetches, 0U);
  EXPECT_THAT(residency.violations, IsEmpty());
}

TEST(AdversarialProgram, OneBlockUsedTwelveTimesBehindAnEmbedding) {
  // ALBERT: all layers share their weights.
  Program program;
  const BufferId x = program.add(1_MiB, false);
  std::vector<BufferId> block;
  for (int i = 0; i < 6; ++i) block.push_back(program.add(8_MiB));
  program.launch(1, {program.add(30_MiB), x});
  for (int layer = 0; layer < 12; ++layer) {
    for (const BufferId weight : block) program.launch(2, {weight, x});
  }
  program.launch(3, {program.add(30_MiB), x});
  for (const PolicyConfig& config : all_configs()) {
    PolicyEngine engine(config);
    ObedientResidency residency(engine);
    residency.load(program);
    residency.run(program, 20);
    EXPECT_THAT(residency.violations, IsEmpty());
  }
}

TEST(AdversarialProgram, TransientsWithNewIdsEveryLaunchDoNotDisturb) {
  const Program program = forward_program(10);
  PolicyEngine engine(with_k(PolicyKind::kSuperpipelinePaper, 3, 1));
  ObedientResidency residency(engine);
  residency.load(program);
  std::uint32_t next = 100;
  for (int pass = 0; pass < 20; ++pass) {
    if (pass == 5) residency.reset_counters();
    for (const ScriptLaunch& launch : program.pass) {
      const BufferId transient{next++};
      residency.allocate(transient, 2_MiB);
      std::vector<BufferId> buffers = launch.buffers;
      buffers.push_back(transient);
      residency.launch(launch.kernel, buffers);
      residency.free(transient);
    }
  }
  EXPECT_EQ(residency.demand_fetches, 150U);  // the transients themselves, on their first use
  EXPECT_EQ(residency.jumps(), 0U);
  EXPECT_LE(residency.peak, engine.managed_limit());
}

TEST(AdversarialProgram, InputsUploadedAndFreedEveryPassDoNotDisturb) {
  const Program program = forward_program(10);
  PolicyEngine engine(with_k(PolicyKind::kSuperpipelinePaper, 3, 1));
  ObedientResidency residency(engine);
  residency.load(program);
  for (std::uint32_t pass = 0; pass < 20; ++pass) {
    if (pass == 5) residency.reset_counters();
    const BufferId input{100 + pass % 3};
    residency.allocate(input, 3_MiB);
    engine.on_host_write(input);
    residency.launch(KernelId{77}, {input, BufferId{0}});
    residency.run(program);
    residency.free(input);
  }
  EXPECT_TRUE(engine.learned().layers_known);
  EXPECT_EQ(residency.jumps(), 0U);
  EXPECT_THAT(residency.violations, IsEmpty());
}

RC_GTEST_PROP(AdversarialProgram, ExpertsChosenAtRandomAreAlwaysServed, ()) {
  // A mixture of experts: each layer uses two of eight, never the same.
  Program program;
  const BufferId x = program.add(1_MiB, false);
  std::vector<BufferId> attention;
  std::vector<std::vector<BufferId>> experts;
  for (int layer = 0; layer < 4; ++layer) {
    attention.push_back(program.add(8_MiB));
    experts.emplace_back();
    for (int expert = 0; expert < 8; ++expert) experts.back().push_back(program.add(4_MiB));
  }
  const auto choices =
      *rc::gen::container<std::vector<int>>(std::size_t{120}, rc::gen::inRange(0, 8));
  for (const PolicyConfig& config : all_configs()) {
    PolicyEngine engine(config);
    ObedientResidency residency(engine);
    residency.load(program);
    std::size_t at = 0;
    for (int pass = 0; pass < 15; ++pass) {
      for (std::size_t layer = 0; layer < 4; ++layer) {
        residency.launch(KernelId{1}, {attention[layer], x});
        for (int used = 0; used < 2; ++used) {
          const auto expert = static_cast<std::size_t>(choices[at++ % choices.size()]);
          residency.launch(KernelId{2}, {experts[layer][expert], x});
        }
      }
    }
    RC_ASSERT(residency.violations.empty());
    if (config.budget) RC_ASSERT(residency.peak <= *config.budget);
  }
}

RC_GTEST_PROP(AdversarialProgram, AnyLaunchesFreesAndWritesAreSafe, ()) {
  const auto config = *rc::gen::elementOf(all_configs());
  PolicyEngine engine(config);
  ObedientResidency residency(engine);
  std::set<std::uint32_t> live;
  const auto steps = *rc::gen::inRange(0, 400);
  const auto salt = *rc::gen::arbitrary<std::uint32_t>();
  std::uint64_t state = salt;
  const auto random = [&state](std::uint64_t below) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    return (state >> 33) % below;
  };
  for (int step = 0; step < steps; ++step) {
    const auto id = static_cast<std::uint32_t>(random(24));
    switch (random(8)) {
      case 0:
        if (live.insert(id).second) residency.allocate(BufferId{id}, Bytes{(1 + random(9)) << 20});
        break;
      case 1:
        if (random(4) == 0 && live.erase(id) != 0) residency.free(BufferId{id});
        break;
      case 2:
        engine.on_host_write(BufferId{id});
        break;
      default: {
        // Mostly in turns, so that orders are learned and broken again.
        std::vector<BufferId> buffers;
        for (std::uint32_t one = 0; one < 24; ++one) {
          if (live.count(one) != 0 &&
              (one == static_cast<std::uint32_t>(step) % 24 || random(24) == 0)) {
            buffers.push_back(BufferId{one});
          }
        }
        residency.launch(KernelId{random(3)}, buffers);
      }
    }
    (void)engine.managed_limit();
  }
  RC_ASSERT(residency.violations.empty());
}

}  // namespace
}  // namespace superpipe
