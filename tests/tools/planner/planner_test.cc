// Plans of programs whose times are known.
#include "tools/superpipe/planner/planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tests/tools/planner/written_trace.h"
#include "tools/superpipe/planner/trade_off_svg.h"

namespace superpipe::cli {
namespace {

using ::testing::HasSubstr;
using testing::program_of;
using testing::WrittenTrace;

constexpr LinkSpeed kLink{{25e9}, {25e9}};

class PlannerTest : public ::testing::Test {
 protected:
  static constexpr int kLayers = 16;
  static constexpr Bytes kLayer = 128_MiB;
  static constexpr Bytes kContext = 512_MiB;

  static TracedProgram cycle() {
    WrittenTrace trace;
    testing::write_cycle(trace, kLayers, kLayer, 12);
    return program_of(trace);
  }

  TracedProgram program_ = cycle();
  Planner planner_{program_, kLink};
};

TEST_F(PlannerTest, AProgramIsWhatItsTraceTells) {
  EXPECT_EQ(program_.launches(), 12U * kLayers);
  EXPECT_EQ(program_.peak(), kLayers * kLayer + 2_MiB);
  EXPECT_EQ(program_.largest_launch(), kLayer + 2_MiB);
  EXPECT_EQ(program_.largest_kernel(), "kernel1");
  EXPECT_EQ(program_.kernel_name(KernelId{1003}), "kernel3");
  EXPECT_EQ(program_.kernel_name(KernelId{999}), "") << "there is none";
  EXPECT_DOUBLE_EQ(program_.measured_share(), 1);
  EXPECT_EQ(program_.run().context, kContext);
  EXPECT_FALSE(program_.is_written(0)) << "it was copied in";
  EXPECT_TRUE(program_.is_written(kLayers)) << "only a kernel can have written it";
  EXPECT_EQ(planner_.needed(), kContext + kLayers * kLayer + 2_MiB);
  EXPECT_EQ(planner_.least(), kContext + kLayer + 2_MiB);
}

TEST_F(PlannerTest, PassesAreFoundFromTheFirstOn) {
  ASSERT_EQ(planner_.passes().size(), Planner::kMostPasses);
  for (std::size_t pass = 0; pass < planner_.passes().size(); ++pass) {
    EXPECT_EQ(planner_.passes().begins[pass] % kLayers, planner_.passes().begins[0] % kLayers);
  }
  EXPECT_LT(planner_.passes().begins[0], static_cast<std::size_t>(kLayers));
}

TEST_F(PlannerTest, WithAllOnTheDeviceAPassTakesWhatItsKernelsTake) {
  EXPECT_NEAR(planner_.resident_pass_ms(), kLayers, 0.2);
  const Prediction whole = planner_.predict({PolicyKind::kAuto, planner_.needed() + 64_MiB});
  EXPECT_EQ(whole.problem, "");
  EXPECT_NEAR(whole.pass_ms, kLayers, 0.2);
  EXPECT_EQ(whole.to_device_bytes, 0);
}

TEST_F(PlannerTest, AtHalfOfItAPassTakesWhatTheLinkTakes) {
  const Prediction half = planner_.predict({PolicyKind::kAuto, kContext + kLayers / 2 * kLayer});
  EXPECT_EQ(half.problem, "");
  const double least = 1e3 * static_cast<double>((kLayers / 2 * kLayer).count()) / 25e9;
  EXPECT_GT(half.pass_ms, 0.95 * least);
  EXPECT_LT(half.pass_ms, 1.3 * least);
  ASSERT_TRUE(half.bound_ms.has_value());
  EXPECT_GE(half.pass_ms, 0.99 * *half.bound_ms);
  EXPECT_LE(half.peak, kContext + kLayers / 2 * kLayer);
  EXPECT_LT(half.to_host_bytes, static_cast<double>(kLayer.count())) << "nobody writes weights";
  const Prediction slower = Planner(program_, {{12e9}, {12e9}})
                                .predict({PolicyKind::kAuto, kContext + kLayers / 2 * kLayer});
  EXPECT_GT(slower.pass_ms, 1.8 * half.pass_ms);
}

// As the run would say itself, and not by a number that means nothing to anyone.
TEST_F(PlannerTest, ALaunchThatFindsNoRoomIsNamedByItsKernel) {
  const std::string arguments(40, 'x');
  WrittenTrace trace;
  trace.name_kernel(1, "multiply<" + arguments + ">(float*)\n");
  testing::write_cycle(trace, kLayers, kLayer, 12);
  const TracedProgram program = program_of(trace);
  const Prediction little = Planner(program, kLink).predict({PolicyKind::kAuto, kContext + 64_MiB});
  EXPECT_THAT(little.problem, HasSubstr(": a launch of kernel multiply<...>(float*)? needs "));
  WrittenTrace nameless;
  nameless.name_kernel(1, "");
  testing::write_cycle(nameless, kLayers, kLayer, 12);
  const TracedProgram other = program_of(nameless);
  EXPECT_THAT(Planner(other, kLink).predict({PolicyKind::kAuto, kContext + 64_MiB}).problem,
              HasSubstr(": a launch of kernel 1001 needs "));
}

// What the program's thread waits for while the device computes is no stall, as in a run's summary.
TEST_F(PlannerTest, StallsAreWhatAPassTakesBeyondItsKernels) {
  const Prediction slow = Planner(program_, {{1e9}, {1e9}})
                              .predict({PolicyKind::kAuto, kContext + kLayers / 2 * kLayer});
  EXPECT_NEAR(slow.stall_ms, slow.pass_ms - kLayers, 0.02 * slow.pass_ms);
  const Planner fast(program_, {{2e12}, {2e12}});
  const Prediction hidden = fast.predict({PolicyKind::kAuto, kContext + kLayers / 2 * kLayer});
  EXPECT_GT(hidden.to_device_bytes, 0);
  // What is left is what the calls for seven pieces take in a launch's millisecond.
  EXPECT_LT(hidden.stall_ms, 0.15 * hidden.pass_ms);
}

TEST_F(PlannerTest, ThePeakLeavesTheHeadroomFree) {
  constexpr Bytes kHeadroom = 256_MiB;
  WrittenTrace trace({{"budget.headroom_bytes", std::to_string(kHeadroom.count())}});
  testing::write_cycle(trace, kLayers, kLayer, 12);
  const TracedProgram program = program_of(trace);
  const Planner planner(program, kLink);
  EXPECT_EQ(planner.overhead(), kContext + kHeadroom);
  const Bytes budget = kContext + kHeadroom + kLayers / 2 * kLayer;
  const Prediction half = planner.predict({PolicyKind::kAuto, budget});
  EXPECT_EQ(half.problem, "");
  EXPECT_LE(half.peak, budget - kHeadroom);
  EXPECT_GT(half.peak, budget - kHeadroom - kLayer);
  const Prediction whole = planner.predict({PolicyKind::kAuto, planner.needed() + 64_MiB});
  EXPECT_EQ(whole.peak, kContext + program.peak());
}

// By default it is a part of the budget, which a profile with all on the device has none of.
TEST_F(PlannerTest, AHeadroomThatWasTheDefaultIsTheDefaultOfOtherBudgets) {
  const auto planned = [](Bytes headroom, Bytes budget) {
    WrittenTrace trace({{"device.total_bytes", std::to_string((100_GiB).count())},
                        {"budget.bytes", std::to_string((90_GiB).count())},
                        {"budget.headroom_bytes", std::to_string(headroom.count())}});
    testing::write_cycle(trace, kLayers, kLayer, 12);
    const TracedProgram program = program_of(trace);
    return Planner(program, kLink).predict({PolicyKind::kAuto, kContext + budget});
  };
  EXPECT_EQ(planned(1_GiB, 1_GiB).peak, kContext + 1_GiB - 128_MiB);
  EXPECT_NE(planned(1_GiB - 2_MiB, 1_GiB).problem, "") << "the user chose it";
  WrittenTrace trace({{"device.total_bytes", std::to_string((100_GiB).count())},
                      {"budget.headroom_bytes", std::to_string((1_GiB).count())}});
  testing::write_cycle(trace, kLayers, kLayer, 12);
  const TracedProgram program = program_of(trace);
  const Planner planner(program, kLink);
  EXPECT_LT(planner.needed(), kContext + Bytes{program.peak().count() / 7 * 8} + 4_KiB);
  EXPECT_EQ(planner.predict({PolicyKind::kAuto, planner.needed()}).to_device_bytes, 0);
  EXPECT_EQ(planner.predict({PolicyKind::kAuto, planner.least()}).problem, "");
}

// A smaller device than the traced one has a smaller headroom by default.
TEST_F(PlannerTest, AHeadroomThatWasTheDefaultIsTheDefaultOfTheDeviceThatIsAskedAbout) {
  const auto overhead_on = [](std::optional<Bytes> device, Bytes headroom) {
    WrittenTrace trace({{"device.total_bytes", std::to_string((100_GiB).count())},
                        {"budget.headroom_bytes", std::to_string(headroom.count())}});
    testing::write_cycle(trace, kLayers, kLayer, 12);
    const TracedProgram program = program_of(trace);
    const Planner planner(program, kLink, device);
    EXPECT_TRUE(planner.accuracy().has_value());
    return planner.overhead() - kContext;
  };
  EXPECT_EQ(overhead_on(4_GiB, 1_GiB), 64_MiB);
  EXPECT_GT(overhead_on(std::nullopt, 1_GiB), 64_MiB);
  EXPECT_EQ(overhead_on(4_GiB, 2_GiB), 2_GiB) << "the user chose it";
}

TEST_F(PlannerTest, PoliciesThatCountLayersTakeAKOrABudget) {
  const Prediction layers = planner_.predict({PolicyKind::kSuperpipeline, Bytes{}, 4, 2});
  EXPECT_EQ(layers.problem, "");
  EXPECT_GT(layers.pass_ms, planner_.resident_pass_ms());
  EXPECT_FALSE(layers.bound_ms.has_value()) << "a k is no budget";
  const Prediction budget =
      planner_.predict({PolicyKind::kSuperpipeline, kContext + kLayers / 2 * kLayer});
  EXPECT_EQ(budget.problem, "");
}

TEST_F(PlannerTest, APlanHasTheFirstPassAndMakesItShorter) {
  const PlanQuestion half{PolicyKind::kAuto, kContext + kLayers / 2 * kLayer};
  const auto found = planner_.plan_for(half);
  ASSERT_TRUE(std::holds_alternative<Plan>(found)) << std::get<std::string>(found);
  const Plan& plan = std::get<Plan>(found);
  EXPECT_EQ(plan.policy, PolicyKind::kAuto);
  EXPECT_EQ(plan.gpu_mem, half.gpu_mem);
  const RecordedRun& run = *plan.recorded;
  EXPECT_EQ(run.footprints.size(), kLayers + 1U);
  EXPECT_EQ(run.pass_begin, planner_.passes().begins[0]);
  EXPECT_EQ(run.launches.size(), planner_.passes().begins[1]);
  for (const RecordedRun::Launch& launch : run.launches) EXPECT_EQ(launch.count, 2U);
  EXPECT_FALSE(run.slabs.empty());
  EXPECT_FALSE(run.write_backs.empty());
  for (const RecordedRun::PieceOf& one : run.write_backs) EXPECT_LT(one.buffer, kLayers);
  const Prediction alone = planner_.predict(half);
  EXPECT_EQ(plan.pass_ms, alone.pass_ms);
  EXPECT_LT(plan.first_pass_ms, alone.first_pass_ms);
  EXPECT_LE(plan.first_pass_ms, 1.25 * *alone.bound_ms);
}

TEST_F(PlannerTest, APlanInLayersHasNoOrder) {
  const auto found = planner_.plan_for({PolicyKind::kSuperpipeline, Bytes{}, 4, 2});
  ASSERT_TRUE(std::holds_alternative<Plan>(found)) << std::get<std::string>(found);
  EXPECT_EQ(std::get<Plan>(found).k, 4);
  EXPECT_EQ(std::get<Plan>(found).k_prime, 2);
  EXPECT_TRUE(std::get<Plan>(found).recorded->launches.empty());
}

TEST_F(PlannerTest, WhatIsOutNeedsHostMemory) {
  PlanQuestion half{PolicyKind::kAuto, kContext + kLayers / 2 * kLayer};
  const Prediction free = planner_.predict(half);
  EXPECT_GE(free.pinned_host, kLayers / 2 * kLayer);
  half.host_mem = kLayers * kLayer;
  const Prediction enough = planner_.predict(half);
  EXPECT_EQ(enough.problem, "");
  EXPECT_LE(enough.pinned_host, *half.host_mem);
  half.host_mem = 4 * kLayer;
  EXPECT_NE(planner_.predict(half).problem, "");
}

TEST_F(PlannerTest, ThereIsNoPlanForWhatDoesNotRun) {
  const auto found = planner_.plan_for({PolicyKind::kAuto, kContext});
  EXPECT_TRUE(std::holds_alternative<std::string>(found));
}

TEST_F(PlannerTest, WhatDoesNotRunSaysWhy) {
  EXPECT_NE(planner_.predict({PolicyKind::kAuto, kContext}).problem, "");
  EXPECT_NE(planner_.predict({PolicyKind::kAuto, kContext + 64_MiB}).problem, "");
  EXPECT_EQ(planner_.predict({PolicyKind::kAuto, planner_.least() + 2_MiB}).problem, "");
}

TEST_F(PlannerTest, TheTracedRunIsPredictedAsItWasMeasured) {
  WrittenTrace trace;
  testing::write_cycle(trace, kLayers, kLayer, 60);
  const TracedProgram program = program_of(trace);
  const auto accuracy = Planner(program, kLink).accuracy();
  ASSERT_TRUE(accuracy.has_value());
  EXPECT_NEAR(accuracy->pass_error(), 0, 0.02);
}

// A question about another link says nothing about the run that was traced.
TEST_F(PlannerTest, TheTracedRunHasTheLinkThatItsTransfersTell) {
  const Bytes budget = kLayers / 2 * kLayer;
  WrittenTrace trace({{"policy.name", "auto"}, {"budget.bytes", std::to_string(budget.count())}});
  testing::write_cycle(trace, kLayers, kLayer, 20);
  for (std::uint64_t number = 1; number <= 40; ++number) {
    trace.add(TraceFetch{{number}, BufferId{0}, {}, 16_MiB, 16_MiB, true});
    trace.sleep(4'000'000 - 2 * WrittenTrace::kCall);
    trace.add(TraceTransferEnd{{number}});
  }
  const TracedProgram program = program_of(trace);
  ASSERT_TRUE(program.run().link_to_device.has_value());
  EXPECT_NEAR(program.run().link_to_device->bytes_per_second, 4.2e9, 0.05e9);
  const auto fast = Planner(program, kLink).accuracy();
  const auto slow = Planner(program, {{1e9}, {1e9}}).accuracy();
  ASSERT_TRUE(fast.has_value() && slow.has_value());
  EXPECT_TRUE(fast->has_own_link);
  EXPECT_EQ(fast->predicted_pass_ms, slow->predicted_pass_ms);
  EXPECT_GT(fast->predicted_pass_ms,
            1e3 * static_cast<double>((kLayers / 2 * kLayer).count()) / 4.3e9);
  EXPECT_FALSE(planner_.accuracy()->has_own_link);
}

// The device has nothing to do meanwhile, whatever the budget.
TEST_F(PlannerTest, WhatTheProgramDoesItselfTakesItsTime) {
  WrittenTrace trace;
  const BufferId weight = trace.allocate(kLayer);
  for (int i = 0; i < 60; ++i) {
    trace.sleep(i % 6 == 0 ? 50'000'000 : 3'000'000);
    trace.launch(static_cast<std::uint32_t>(1 + i % 6), {weight}, 1'000'000);
  }
  const TracedProgram program = program_of(trace);
  EXPECT_NEAR(Planner(program, kLink).resident_pass_ms(), 65, 1);
}

// Under another budget it waits for something else.
TEST_F(PlannerTest, WhatTheProgramWaitedForTakesNone) {
  const auto pass_with = [](std::uint64_t what) {
    WrittenTrace trace;
    const BufferId weight = trace.allocate(kLayer);
    for (int i = 0; i < 60; ++i) {
      trace.copy(weight, 4_KiB, false);
      trace.wait(what, 7'000'000);
      trace.launch(static_cast<std::uint32_t>(1 + i % 6), {weight}, 1'000'000);
    }
    const TracedProgram program = program_of(trace);
    return Planner(program, kLink).resident_pass_ms();
  };
  for (const std::uint64_t what : {TraceWait::kLaunch, TraceWait::kDevice, TraceWait::kCopy}) {
    EXPECT_NEAR(pass_with(what), 6, 0.5) << what;
  }
}

// PyTorch's backward pass is launched by another thread, for which the first one waits in silence.
TEST_F(PlannerTest, AThreadThatWaitsForAnotherDoesNothingMeanwhile) {
  WrittenTrace trace;
  const BufferId weight = trace.allocate(kLayer);
  for (int i = 0; i < 60; ++i) {
    trace.on_thread(i % 6 < 3 ? 1 : 2);
    trace.sleep(3'000'000);
    trace.launch(static_cast<std::uint32_t>(1 + i % 6), {weight}, 1'000'000);
  }
  const TracedProgram program = program_of(trace);
  EXPECT_NEAR(Planner(program, kLink).resident_pass_ms(), 18, 0.5);
}

// Kernels and the program take turns where it waits for each, and do not where it does not.
TEST_F(PlannerTest, WaitsForTheDeviceAreWaitedForAgain) {
  const auto pass_with = [](bool waits) {
    WrittenTrace trace;
    const BufferId weight = trace.allocate(kLayer);
    for (int i = 0; i < 60; ++i) {
      trace.sleep(1'000'000);
      trace.launch(static_cast<std::uint32_t>(1 + i % 6), {weight}, 1'000'000);
      if (waits) trace.wait();
    }
    const TracedProgram program = program_of(trace);
    return Planner(program, kLink).resident_pass_ms();
  };
  EXPECT_NEAR(pass_with(true), 12, 0.5);
  EXPECT_NEAR(pass_with(false), 6, 0.5);
}

// It is done when it has waited for its last launch.
TEST_F(PlannerTest, WhatAProgramDoesBehindItsLastLaunchIsNoPartOfAPass) {
  const auto measured_with = [](std::int64_t idle) {
    WrittenTrace trace;
    testing::write_cycle(trace, kLayers, kLayer, 12);
    trace.sleep(idle);
    trace.copy(BufferId{0}, 4_KiB, false);
    const TracedProgram program = program_of(trace);
    return Planner(program, kLink).accuracy()->measured_pass_ms;
  };
  EXPECT_NEAR(measured_with(30'000'000'000), measured_with(0), 0.5);
}

// Most users would call the shorter ones a pass.
TEST_F(PlannerTest, APauseBetweenSomePassesIsNoPartOfAPass) {
  WrittenTrace trace;
  const BufferId weight = trace.allocate(kLayer);
  const BufferId state = trace.allocate(kLayer);
  for (int i = 0; i < 12 * 16; ++i) {
    if (i % (4 * 16) == 0) trace.sleep(1'000'000'000);
    trace.launch(static_cast<std::uint32_t>(1 + i % 16), {i % 2 == 0 ? weight : state}, 1'000'000);
    if (i % 16 == 15) trace.wait();
  }
  const TracedProgram program = program_of(trace);
  const Planner planner(program, kLink);
  EXPECT_NEAR(planner.resident_pass_ms(), 16, 0.5);
  EXPECT_NEAR(planner.accuracy()->measured_pass_ms, 16, 0.5);
  const Prediction prediction = planner.predict({PolicyKind::kAuto, kContext + 3 * kLayer});
  ASSERT_EQ(prediction.problem, "");
  EXPECT_NEAR(prediction.pass_ms, 16, 0.5);
  EXPECT_NEAR(*prediction.bound_ms, 16, 0.5);
}

// While the program does something else, the device has work for as long as the queue is.
TEST_F(PlannerTest, TheProgramIsNoFurtherAheadThanItsDriverLetIt) {
  constexpr int kLaunches = 400;
  const auto pass_with = [](std::size_t room) {
    WrittenTrace trace;
    trace.driver_has_room_for(room);
    const BufferId weight = trace.allocate(kLayer);
    const BufferId state = trace.allocate(kLayer);
    for (int i = 0; i < 6 * kLaunches; ++i) {
      if (i % kLaunches == 0) trace.sleep(300'000'000);
      trace.launch(static_cast<std::uint32_t>(1 + i % kLaunches), {i % 2 == 0 ? weight : state},
                   1'000'000);
    }
    const TracedProgram program = program_of(trace);
    EXPECT_NEAR(static_cast<double>(program.run().queue_depth.value_or(0)),
                static_cast<double>(room), 1);
    return Planner(program, kLink).resident_pass_ms();
  };
  EXPECT_NEAR(pass_with(100), 600, 5) << "200 ms of a pass it has none";
  EXPECT_NEAR(pass_with(350), 400, 5) << "it always has some";
}

// In the pause, what a pass needs first comes in.
TEST_F(PlannerTest, TheBoundOfAPassBetweenPausesIsNoLongerThanIt) {
  WrittenTrace trace;
  std::vector<BufferId> weights;
  for (int i = 0; i < kLayers; ++i) {
    weights.push_back(trace.allocate(kLayer));
    trace.copy(weights.back(), kLayer, true);
  }
  for (int i = 0; i < 12 * kLayers; ++i) {
    if (i % (3 * kLayers) == 0) trace.sleep(1'000'000'000);
    const auto layer = static_cast<std::size_t>(i % kLayers);
    trace.launch(static_cast<std::uint32_t>(1 + layer), {weights[layer]}, 1'000'000);
    if (i % kLayers == kLayers - 1) trace.wait();
  }
  const TracedProgram program = program_of(trace);
  const Prediction prediction =
      Planner(program, kLink).predict({PolicyKind::kAuto, kContext + 8 * kLayer});
  ASSERT_EQ(prediction.problem, "");
  EXPECT_TRUE(prediction.is_of_median);
  EXPECT_LT(prediction.pass_ms, 200);
  EXPECT_GT(*prediction.bound_ms, 40) << "half of the weights come in each pass";
  EXPECT_LE(*prediction.bound_ms, prediction.pass_ms);
}

TEST_F(PlannerTest, DigestsTakeWhatTheDevicesMemoryTakes) {
  const auto pass_with = [](const char* bytes_per_second) {
    const std::pair<std::string, std::string> memory{"device.memory_bytes_per_second",
                                                     bytes_per_second};
    WrittenTrace trace(std::vector{memory});
    testing::write_cycle(trace, kLayers, kLayer, 12);
    const TracedProgram program = program_of(trace);
    return Planner(program, kLink).predict({PolicyKind::kAuto, kContext + 8 * kLayer}).pass_ms;
  };
  EXPECT_GT(pass_with("1000000000"), 1.02 * pass_with("3000000000000"));
  EXPECT_EQ(pass_with("1"), pass_with("800000000000")) << "no device's: the usual one stands";
}

TEST(PlanAccuracyTest, IsNearWithinTheLimitsOrAGranule) {
  PlanAccuracy accuracy;
  accuracy.measured_pass_ms = 100;
  accuracy.predicted_pass_ms = 104;
  EXPECT_TRUE(accuracy.is_near()) << "no peak is known";
  accuracy.measured_peak = 1000_MiB;
  accuracy.predicted_peak = 981_MiB;
  EXPECT_TRUE(accuracy.is_near());
  accuracy.predicted_peak = 978_MiB;
  EXPECT_FALSE(accuracy.is_near());
  accuracy.measured_peak = 40_MiB;
  accuracy.predicted_peak = 38_MiB;
  EXPECT_TRUE(accuracy.is_near());
  accuracy.predicted_pass_ms = 94;
  EXPECT_FALSE(accuracy.is_near());
}

TEST_F(PlannerTest, ThePassesInWhichSuperpipeLearnsAreNotMeasured) {
  WrittenTrace trace;
  testing::write_cycle(trace, kLayers, kLayer, 20, 1'000'000'000);
  const TracedProgram program = program_of(trace);
  const auto accuracy = Planner(program, kLink).accuracy();
  ASSERT_TRUE(accuracy.has_value());
  EXPECT_NEAR(accuracy->pass_error(), 0, 0.05);
}

TEST_F(PlannerTest, WhatAProgramDoesBehindItsLastPassIsNotMeasured) {
  WrittenTrace trace;
  testing::write_cycle(trace, kLayers, kLayer, 20);
  trace.sleep(1'000'000'000);
  trace.allocate(kLayer);
  const TracedProgram program = program_of(trace);
  const auto accuracy = Planner(program, kLink).accuracy();
  ASSERT_TRUE(accuracy.has_value());
  EXPECT_NEAR(accuracy->pass_error(), 0, 0.05);
}

TEST_F(PlannerTest, AProgramThatRunsAheadIsMeasuredFromItsFirstPassOn) {
  WrittenTrace trace;
  std::vector<BufferId> weights;
  for (int i = 0; i < kLayers; ++i) weights.push_back(trace.allocate(kLayer));
  for (int i = 0; i < 10 * kLayers; ++i) {
    trace.launch(static_cast<std::uint32_t>(1 + i % kLayers), {weights[i % kLayers]}, 1'000'000);
  }
  trace.wait();
  trace.copy(weights.front(), 4_KiB, false);
  const TracedProgram program = program_of(trace);
  const auto accuracy = Planner(program, kLink).accuracy();
  ASSERT_TRUE(accuracy.has_value());
  EXPECT_NEAR(accuracy->measured_pass_ms, kLayers, 0.1 * kLayers);
}

TEST_F(PlannerTest, ThePictureHasALineForEachPolicyAndNoneForWhatDoesNotRun) {
  const std::vector<Prediction> rows{planner_.predict({PolicyKind::kAuto, kContext + 8 * kLayer}),
                                     planner_.predict({PolicyKind::kAuto, planner_.needed()}),
                                     planner_.predict({PolicyKind::kNaive, kContext + 8 * kLayer}),
                                     planner_.predict({PolicyKind::kLru, kContext})};
  const std::string svg = trade_off_svg(rows, planner_.resident_pass_ms());
  EXPECT_EQ(svg.rfind("<svg ", 0), 0U);
  EXPECT_NE(svg.find(">auto</text>"), std::string::npos);
  EXPECT_NE(svg.find(">naive</text>"), std::string::npos);
  EXPECT_EQ(svg.find(">lru</text>"), std::string::npos);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_NE(trade_off_svg({}, 0).find("</svg>"), std::string::npos);
}

TEST(PlannerOfShortPassesTest, PassesAreFoundThoughTheProgramNeverWaits) {
  WrittenTrace trace;
  std::vector<BufferId> buffers;
  for (int i = 0; i < 8; ++i) buffers.push_back(trace.allocate(2_MiB));
  for (int launch = 0; launch < 160; ++launch) {
    trace.launch(1, {buffers[static_cast<std::size_t>(launch) % 8]}, 50'000);
    trace.launch(2, {}, 10'000);  // of this one policy is not told
  }
  const TracedProgram program = program_of(trace);
  EXPECT_EQ(program.launches(), 160U);
  const Planner planner(program, kLink);
  EXPECT_EQ(planner.passes().size(), Planner::kMostPasses);
  EXPECT_NEAR(planner.resident_pass_ms(), 8 * 0.06, 0.02);
}

// Meters keep the last passes only (PassMeter::kKept, at most twice as many).
TEST(PlannerOfManyPassesTest, PassesAreFoundFromTheFirstOnHoweverManyThereAre) {
  WrittenTrace trace;
  const BufferId first = trace.allocate(4_MiB);
  const BufferId second = trace.allocate(4_MiB);
  constexpr std::size_t kPasses = 20'000;
  for (std::size_t pass = 0; pass < kPasses; ++pass) {
    trace.launch(1, {first}, 1000);
    trace.launch(2, {second}, 1000);
  }
  const auto program = std::get<TracedProgram>(trace.program());
  const TracedPasses passes = find_passes(program, 1'000'000);
  EXPECT_GE(passes.size(), kPasses - 3);
  EXPECT_LE(passes.begins.front(), 2U);
  for (std::size_t i = 1; i < passes.begins.size(); ++i) {
    ASSERT_EQ(passes.begins[i], passes.begins[i - 1] + 2) << i;
  }
}

TEST(PlannerOfOnePassTest, AProgramThatDoesNotRepeatIsPlannedAsAWhole) {
  WrittenTrace trace;
  std::vector<BufferId> buffers;
  for (int i = 0; i < 20; ++i) buffers.push_back(trace.allocate(8_MiB));
  for (std::uint32_t i = 0; i < 20; ++i) trace.launch(i + 1, {buffers[i]}, 100'000);
  const TracedProgram program = program_of(trace);
  const Planner planner(program, kLink);
  EXPECT_EQ(planner.passes().size(), 0U);
  EXPECT_NEAR(planner.resident_pass_ms(), 2, 0.2);
  EXPECT_EQ(planner.predict({PolicyKind::kAuto, 512_MiB + 64_MiB}).problem, "");
  std::string problem;
  EXPECT_FALSE(planner.accuracy(&problem).has_value());
  EXPECT_THAT(problem, HasSubstr("does not repeat itself"));
}

TEST_F(PlannerTest, PassesThatWereSubmittedFasterThanTheDeviceRunsThemAreNotCompared) {
  WrittenTrace trace;
  const BufferId weight = trace.allocate(kLayer);
  const BufferId state = trace.allocate(kLayer);
  for (int i = 0; i < 12 * 16; ++i) {
    if (i % (4 * 16) == 0) trace.sleep(1'000'000'000);
    trace.launch(static_cast<std::uint32_t>(1 + i % 16), {i % 2 == 0 ? weight : state}, 1'000'000);
  }
  const TracedProgram program = program_of(trace);
  std::string problem;
  EXPECT_FALSE(Planner(program, kLink).accuracy(&problem).has_value());
  EXPECT_THAT(problem, HasSubstr("faster than its kernel times let the device run them"));
}

}  // namespace
}  // namespace superpipe::cli
