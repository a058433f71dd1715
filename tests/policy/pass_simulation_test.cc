#include "tests/policy/pass_simulation.h"

#include <gtest/gtest.h>

#include "tests/policy/properties.h"

namespace superpipe::testing {
namespace {

// A second per layer on the link.
constexpr Bytes kLayer = 1_GiB;
const Bandwidth kOneLayerPerSecond{static_cast<double>(kLayer.count())};

PassModel forward(std::size_t layers, double compute_s) {
  PassModel model;
  for (std::uint32_t layer = 0; layer < layers; ++layer) {
    model.visits.push_back({layer, Seconds{compute_s}});
    model.layer_bytes.push_back(kLayer);
  }
  model.host_to_device = kOneLayerPerSecond;
  model.device_to_host = kOneLayerPerSecond;
  return model;
}

WindowSchedule schedule_of(WindowKind kind, std::size_t k, std::size_t k_prime,
                           std::size_t visits) {
  return {kind, k, k_prime, visits};
}

TEST(SimulatePass, TakesComputeAndMovesNothingWhenAllFits) {
  const PassPrediction prediction =
      simulate_pass(forward(4, 0.5), schedule_of(WindowKind::kSuperpipeline, 4, 2, 4));
  EXPECT_DOUBLE_EQ(prediction.pass.count(), 2.0);
  EXPECT_EQ(prediction.fetched, Bytes{});
  EXPECT_EQ(prediction.peak, 4 * kLayer);
}

TEST(SimulatePass, AddsFetchAndComputeWhenNaive) {
  const PassPrediction prediction =
      simulate_pass(forward(4, 0.5), schedule_of(WindowKind::kNaive, 1, 0, 4));
  EXPECT_NEAR(prediction.pass.count(), 4 * 1.5, 1e-9);
  EXPECT_NEAR(prediction.stall.count(), 4.0, 1e-9);
  EXPECT_EQ(prediction.fetched, 4 * kLayer);
  EXPECT_EQ(prediction.peak, kLayer);
}

TEST(SimulatePass, AddsTheWriteBackToo) {
  PassModel model = forward(4, 0.5);
  model.write_back = true;
  const PassPrediction prediction = simulate_pass(model, schedule_of(WindowKind::kNaive, 1, 0, 4));
  EXPECT_NEAR(prediction.pass.count(), 4 * 2.5, 1e-9);
}

TEST(SimulatePass, HidesFetchesBehindComputeWhenSuperpipeline) {
  // While one layer computes for 2 s, the other arrives in 1 s.
  const PassPrediction prediction =
      simulate_pass(forward(6, 2.0), schedule_of(WindowKind::kSuperpipeline, 2, 1, 6));
  EXPECT_NEAR(prediction.pass.count(), 12.0, 1e-9);
  EXPECT_NEAR(prediction.stall.count(), 0.0, 1e-9);
  EXPECT_EQ(prediction.fetched, 6 * kLayer);
  EXPECT_EQ(prediction.peak, 2 * kLayer);
}

TEST(SimulatePass, WaitsAtEachPassForKLayersWhenAsPublished) {
  const PassModel model = forward(6, 2.0);
  const PassPrediction wrapped =
      simulate_pass(model, schedule_of(WindowKind::kSuperpipeline, 2, 1, 6));
  const PassPrediction published =
      simulate_pass(model, schedule_of(WindowKind::kSuperpipelinePaper, 2, 1, 6));
  EXPECT_NEAR((published.pass - wrapped.pass).count(), 2.0, 1e-9);  // two layers' fetch
}

TEST(SimulatePass, StaysNearTheSlidingWindowBoundWhenLinkBound) {
  const PassModel model = forward(32, 0.1);
  const double bound = physical_bound(cost_of(model), Bytes{}).count();
  for (std::size_t k = 2; k <= 16; ++k) {
    for (std::size_t k_prime = 1; k_prime <= k / 2; ++k_prime) {
      const PassPrediction prediction =
          simulate_pass(model, schedule_of(WindowKind::kSuperpipeline, k, k_prime, 32));
      EXPECT_LE(prediction.pass.count(), 1.15 * bound) << k << ' ' << k_prime;
    }
  }
}

PassModel any_model() {
  PassModel model;
  const auto layers = *rc::gen::inRange<std::uint32_t>(2, 12);
  for (std::uint32_t layer = 0; layer < layers; ++layer) {
    model.layer_bytes.push_back(*rc::gen::inRange<std::uint64_t>(1, 9) * kLayer);
  }
  for (std::uint32_t layer = 0; layer < layers; ++layer) {
    model.visits.push_back({layer, Seconds{*rc::gen::inRange(0, 40) * 0.1}});
  }
  if (*rc::gen::arbitrary<bool>()) {
    for (std::uint32_t layer = layers - 1; layer-- > 1;) {
      model.visits.push_back({layer, Seconds{*rc::gen::inRange(0, 40) * 0.1}});
    }
  }
  model.host_to_device = kOneLayerPerSecond;
  model.device_to_host = kOneLayerPerSecond;
  model.write_back = *rc::gen::arbitrary<bool>();
  return model;
}

WindowSchedule any_schedule(const PassModel& model) {
  const auto k = *rc::gen::inRange<std::size_t>(2, 14);
  return {*rc::gen::element(WindowKind::kNaive, WindowKind::kSuperpipeline,
                            WindowKind::kSuperpipelinePaper),
          k, *rc::gen::inRange<std::size_t>(1, k), model.visits.size()};
}

RC_GTEST_PROP(SimulatePass, IsNeverFasterThanItsBounds, ()) {
  const PassModel model = any_model();
  const WindowSchedule schedule = any_schedule(model);
  const PassPrediction prediction = simulate_pass(model, schedule);
  const PassCost cost = cost_of(model);
  const double epsilon = 1e-6;
  RC_ASSERT(prediction.pass.count() >= cost.compute.count() - epsilon);
  RC_ASSERT(prediction.pass.count() >= physical_bound(cost, prediction.peak).count() - epsilon);
  RC_ASSERT(prediction.pass.count() >=
            model.host_to_device.time_for(prediction.fetched).count() - epsilon);
  if (model.write_back) {
    RC_ASSERT(prediction.pass.count() >=
              model.device_to_host.time_for(prediction.fetched).count() - epsilon);
  }
  RC_ASSERT(prediction.pass.count() <= (cost.compute + prediction.stall).count() + epsilon);
}

RC_GTEST_PROP(SimulatePass, IsNeverSlowerOnAFasterLink, ()) {
  PassModel model = any_model();
  const WindowSchedule schedule = any_schedule(model);
  const double slow = simulate_pass(model, schedule).pass.count();
  model.host_to_device.bytes_per_second *= 2;
  model.device_to_host.bytes_per_second *= 2;
  RC_ASSERT(simulate_pass(model, schedule).pass.count() <= slow + 1e-6);
}

RC_GTEST_PROP(SimulatePass, IsNeverSlowerWithoutWriteBack, ()) {
  PassModel model = any_model();
  const WindowSchedule schedule = any_schedule(model);
  model.write_back = true;
  const double with = simulate_pass(model, schedule).pass.count();
  model.write_back = false;
  RC_ASSERT(simulate_pass(model, schedule).pass.count() <= with + 1e-6);
}

}  // namespace
}  // namespace superpipe::testing
