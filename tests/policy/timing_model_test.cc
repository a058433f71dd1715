#include "policy/timing_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "tests/policy/properties.h"

namespace superpipe {
namespace {

using ::testing::DoubleNear;
using ::testing::SizeIs;

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

TEST(Bounds, AreComputeOrLinkWhicheverIsLonger) {
  PassCost cost{Seconds{3.0}, 8 * kLayer, kOneLayerPerSecond};
  EXPECT_DOUBLE_EQ(sliding_window_bound(cost).count(), 8.0);
  EXPECT_DOUBLE_EQ(physical_bound(cost, 2 * kLayer).count(), 6.0);
  EXPECT_DOUBLE_EQ(achievable_bound(cost, 2 * kLayer, kLayer).count(), 8.0);
  EXPECT_DOUBLE_EQ(achievable_bound(cost, 4 * kLayer, kLayer).count(), 6.0);
  EXPECT_DOUBLE_EQ(physical_bound(cost, 7 * kLayer).count(), 3.0);
  EXPECT_DOUBLE_EQ(achievable_bound(cost, 8 * kLayer, kLayer).count(), 3.0);
  EXPECT_DOUBLE_EQ(physical_bound(cost, 100 * kLayer).count(), 3.0);
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
  const double bound = sliding_window_bound(cost_of(model)).count();
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

RC_GTEST_PROP(Bounds, AreOrdered, (std::uint32_t compute_ms, std::uint32_t fit, std::uint16_t u)) {
  const PassCost cost{Seconds{compute_ms * 1e-3}, Bytes{std::uint64_t{3} << 30},
                      gigabytes_per_second(1)};
  RC_ASSERT(cost.compute <= physical_bound(cost, Bytes{fit}));
  RC_ASSERT(physical_bound(cost, Bytes{fit}) <= achievable_bound(cost, Bytes{fit}, Bytes{u}));
  RC_ASSERT(achievable_bound(cost, Bytes{fit}, Bytes{u}) <= sliding_window_bound(cost));
}

struct PublishedRow {
  double time_ms;
  int k;
};

std::vector<PublishedRow> published_rows() {
  std::ifstream file(std::string(SUPERPIPE_POLICY_TEST_DATA) + "/superpipeline_table1_llama.csv");
  std::vector<PublishedRow> rows;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] < '0' || line[0] > '9') continue;
    std::istringstream fields(line);
    double gpu_gb = 0;
    char comma = 0;
    PublishedRow row{};
    fields >> gpu_gb >> comma >> row.time_ms >> comma >> row.k;
    rows.push_back(row);
  }
  return rows;
}

// The published times of LLaMA-2-7B on PCIe 3.0 fall with k as the link-bound physical bound does,
// with k of 32 layers staying. One row calibrates the link, the others follow: five within 2 %; the
// last of the two rows with k = 10, k' = 2 (the same settings at 1607 and 1460 ms) within 12 %.
TEST(PhysicalBound, FollowsThePublishedTimesOfLlama) {
  const std::vector<PublishedRow> rows = published_rows();
  ASSERT_THAT(rows, SizeIs(6));
  constexpr std::uint64_t kLayers = 32;
  PassCost cost{Seconds{0.026}, kLayers * kLayer, {}};  // compute: the standard run's 26 ms
  const auto streamed =
      static_cast<double>((kLayers - static_cast<std::uint64_t>(rows[0].k)) * kLayer.count());
  cost.host_to_device.bytes_per_second = streamed / (rows[0].time_ms * 1e-3);
  int close = 0;
  for (const PublishedRow& row : rows) {
    const Bytes fit = static_cast<std::uint64_t>(row.k) * kLayer;
    const double predicted_ms = physical_bound(cost, fit).count() * 1e3;
    EXPECT_THAT(predicted_ms, DoubleNear(row.time_ms, 0.12 * row.time_ms)) << row.k;
    if (predicted_ms > 0.98 * row.time_ms && predicted_ms < 1.02 * row.time_ms) ++close;
  }
  EXPECT_GE(close, 5);
}

}  // namespace
}  // namespace superpipe
