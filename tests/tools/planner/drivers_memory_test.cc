// What the driver takes of the device beside pages: as a trace tells it, and in plans.
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "tests/tools/planner/written_trace.h"
#include "tools/superpipe/planner/planner.h"

namespace superpipe::cli {
namespace {

using testing::program_of;
using testing::WrittenTrace;

/// A trace of a program that goes through layers in turn, under a budget.
class DriversMemoryTest : public ::testing::Test {
 protected:
  static constexpr int kLayers = 16;
  static constexpr Bytes kLayer = 128_MiB;
  static constexpr Bytes kContext = 512_MiB;
  static constexpr LinkSpeed kLink{{25e9}, {25e9}};

  class LayersTrace {
   public:
    LayersTrace(Bytes budget, Bytes headroom)
        : trace_({{"policy.name", "auto"},
                  {"budget.bytes", std::to_string(budget.count())},
                  {"budget.headroom_bytes", std::to_string(headroom.count())}}) {
      for (int i = 0; i < kLayers; ++i) {
        weights_.push_back(trace_.allocate(kLayer));
        trace_.copy(weights_.back(), kLayer, true);
      }
    }
    /// Pages take `pages` from now on, and the driver `held`.
    void memory(Bytes pages, Bytes held) {
      trace_.add(TraceMemory{pages, kLayers * kLayer, held, {}});
    }
    /// The next `count` launches.
    void launch(int count) {
      for (const int end = next_ + count; next_ < end; ++next_) {
        trace_.launch(static_cast<std::uint32_t>(1 + next_ % 3), {weights_[next_ % kLayers]},
                      1'000'000);
        if (next_ % kLayers == 0) trace_.wait();
      }
    }
    [[nodiscard]] TracedProgram program() { return program_of(trace_); }

   private:
    WrittenTrace trace_;
    std::vector<BufferId> weights_;
    int next_ = 0;
  };
};

// Code that is loaded by the first launch takes of the headroom, when the buffers fill the rest.
TEST_F(DriversMemoryTest, ThePeakHasWhatTheDriverTakesWhileBuffersAreThere) {
  constexpr Bytes kHeadroom = 64_MiB;
  constexpr Bytes kCode = 64_MiB;
  constexpr Bytes kPages = kLayers / 2 * kLayer;
  LayersTrace trace(kPages + kHeadroom, kHeadroom);
  trace.memory(kPages, {});
  trace.memory(kPages, kCode);
  trace.launch(12 * kLayers);
  trace.memory(kPages - kCode, kCode);
  const TracedProgram program = trace.program();
  EXPECT_EQ(program.run().passthrough, kCode);
  const Planner planner(program, kLink);
  EXPECT_EQ(planner.overhead(), kContext + kHeadroom + kCode);
  const auto accuracy = planner.accuracy();
  ASSERT_TRUE(accuracy.has_value());
  EXPECT_EQ(accuracy->measured_peak, kContext + kPages + kCode);
  EXPECT_EQ(accuracy->predicted_peak, accuracy->measured_peak);
}

/// All layers fit the budget, and the driver takes `steps` in turn in the first pass.
class GrowingDriverTest : public DriversMemoryTest {
 protected:
  static constexpr Bytes kHeadroom = 2_MiB;
  static constexpr Bytes kBudget = kLayers * kLayer + kHeadroom;

  static Prediction predict(const std::vector<Bytes>& steps, const PlanQuestion& question) {
    LayersTrace trace(kBudget, kHeadroom);
    trace.launch(3);
    for (const Bytes held : steps) trace.memory(kLayers * kLayer, held);
    trace.launch(12 * kLayers - 3);
    const TracedProgram program = trace.program();
    const Planner planner(program, kLink);
    return planner.predict(question);
  }
};

// What grows by more than the headroom did so bit by bit, though the trace tells it at once.
TEST_F(GrowingDriverTest, PagesMakeRoomForWhatIsMoreThanTheHeadroom) {
  const PlanQuestion question{PolicyKind::kAuto, kContext + kBudget};
  const Prediction prediction = predict({256_MiB}, question);
  EXPECT_EQ(prediction.problem, "");
  EXPECT_LE(prediction.peak, question.gpu_mem);
  EXPECT_GE(prediction.peak, question.gpu_mem - kLayer - kHeadroom);
}

TEST_F(GrowingDriverTest, StepsThatComeTooFastForTheWorkerCountTogether) {
  const PlanQuestion question{PolicyKind::kAuto, kContext + kBudget};
  std::vector<Bytes> steps;
  for (Bytes held = 2_MiB; held <= 256_MiB; held += 2_MiB) steps.push_back(held);
  EXPECT_LE(predict(steps, question).peak, question.gpu_mem + kHeadroom);
}

TEST_F(GrowingDriverTest, WhatComesBackBeforeAnybodyLooksIsNoGrowth) {
  const PlanQuestion question{PolicyKind::kAuto, kContext + kBudget};
  const Prediction once = predict({256_MiB}, question);
  const Prediction again = predict({256_MiB, 16_MiB, 256_MiB}, question);
  EXPECT_EQ(again.problem, "");
  EXPECT_NEAR(again.first_pass_ms, once.first_pass_ms, 0.1 * once.first_pass_ms);
  EXPECT_LE(again.peak, question.gpu_mem);
}

TEST_F(GrowingDriverTest, LayersByKMakeNoRoomForIt) {
  const PlanQuestion layers{PolicyKind::kSuperpipeline, Bytes{}, 4, 2};
  const Prediction prediction = predict({256_MiB}, layers);
  EXPECT_EQ(prediction.problem, "");
  EXPECT_NEAR(prediction.pass_ms, predict({}, layers).pass_ms, 0.1);
}

TEST(DriversMemory, IsTheMostThatWasToldInWholeGranules) {
  WrittenTrace trace(
      {{"policy.name", "auto"}, {"budget.bytes", std::to_string((600_MiB).count())}});
  const BufferId weights = trace.allocate(64_MiB);
  trace.add(TraceMemory{500_MiB, 64_MiB, 40_MiB, {}});
  trace.add(TraceMemory{400_MiB, 64_MiB, 89_MiB, {}});
  trace.add(TraceMemory{520_MiB, 64_MiB, 30_MiB, {}});
  trace.launch(1, {weights}, 1'000'000);
  const TracedRun run = program_of(trace).run();
  EXPECT_EQ(run.passthrough, 90_MiB);
  EXPECT_EQ(run.peak_device, 550_MiB);
}

// The trace may be anyone's.
TEST(DriversMemory, MayBeToldAsAnySize) {
  constexpr Bytes kAny{std::numeric_limits<std::uint64_t>::max()};
  WrittenTrace trace({{"policy.name", "auto"}, {"budget.bytes", "0"}});
  const BufferId weights = trace.allocate(64_MiB);
  trace.add(TraceMemory{kAny, kAny, kAny, kAny});
  trace.launch(1, {weights}, 1'000'000);
  EXPECT_LE(program_of(trace).run().peak_device, 2048_GiB);
}

}  // namespace
}  // namespace superpipe::cli
