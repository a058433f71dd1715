#include "profiler/run_figures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <vector>

#include "tests/profiler/example_figures.h"

namespace superpipe {
namespace {

using ::testing::ElementsAre;
using ::testing::Optional;

TimelineEvent event_at(int us) {
  TimelineEvent event;
  event.time += std::chrono::microseconds(us);
  return event;
}

/// Figures whose counts are all different: `scale` times one and the same row.
RunFigures figures_of(unsigned scale) {
  RunFigures figures;
  ResidencyStats& stats = figures.residency;
  stats.launches = 1 * scale;
  stats.accesses = 2 * scale;
  stats.h2d_bytes = scale * 3_MiB;
  stats.d2h_bytes = scale * 4_MiB;
  stats.demand_fetches = 5 * scale;
  stats.prefetches = 6 * scale;
  stats.clean_evictions = 7 * scale;
  stats.write_backs = 8 * scale;
  stats.precleaned = 19 * scale;
  stats.digests = 14 * scale;
  stats.unchanged = 15 * scale;
  stats.stall_ms = 9.0 * scale;
  stats.pinned_buffers = 16 * scale;
  stats.left_out_launches = 17 * scale;
  stats.refused_allocations = 23 * scale;
  stats.errors = 10 * scale;
  stats.learned.passes = 11 * scale;
  stats.learned.mispredictions = 12 * scale;
  figures.launches_without_buffers = 13 * scale;
  figures.refused_operations = 19 * scale;
  figures.tensor_maps = 18 * scale;
  return figures;
}

TEST(Merged, AddsUpCounts) {
  const RunFigures sum = merged(figures_of(1), figures_of(100));
  EXPECT_EQ(sum.residency.launches, 101U);
  EXPECT_EQ(sum.residency.accesses, 202U);
  EXPECT_EQ(sum.residency.h2d_bytes, 303_MiB);
  EXPECT_EQ(sum.residency.d2h_bytes, 404_MiB);
  EXPECT_EQ(sum.residency.demand_fetches, 505U);
  EXPECT_EQ(sum.residency.prefetches, 606U);
  EXPECT_EQ(sum.residency.clean_evictions, 707U);
  EXPECT_EQ(sum.residency.write_backs, 808U);
  EXPECT_EQ(sum.residency.precleaned, 1919U);
  EXPECT_EQ(sum.residency.digests, 1414U);
  EXPECT_EQ(sum.residency.unchanged, 1515U);
  EXPECT_DOUBLE_EQ(sum.residency.stall_ms, 909);
  EXPECT_EQ(sum.residency.pinned_buffers, 1616U);
  EXPECT_EQ(sum.residency.left_out_launches, 1717U);
  EXPECT_EQ(sum.residency.refused_allocations, 2323U);
  EXPECT_EQ(sum.residency.errors, 1010U);
  EXPECT_EQ(sum.residency.learned.passes, 1111U);
  EXPECT_EQ(sum.residency.learned.mispredictions, 1212U);
  EXPECT_EQ(sum.launches_without_buffers, 1313U);
  EXPECT_EQ(sum.refused_operations, 1919U);
  EXPECT_EQ(sum.tensor_maps, 1818U);
  EXPECT_EQ(sum.launches(), 1414U);
}

TEST(Merged, TakesTheLargerPeakWhicheverCameFirst) {
  RunFigures high;
  high.residency.peak_device_bytes = 10_MiB;
  high.residency.peak_managed_demand = 20_MiB;
  high.residency.peak_padding = 25_MiB;
  high.residency.pinned_host_bytes = 30_MiB;
  high.residency.peak_passthrough_bytes = 40_MiB;
  high.headroom = 50_MiB;
  for (const RunFigures& sum : {merged(high, RunFigures{}), merged(RunFigures{}, high)}) {
    EXPECT_EQ(sum.residency.peak_device_bytes, 10_MiB);
    EXPECT_EQ(sum.residency.peak_managed_demand, 20_MiB);
    EXPECT_EQ(sum.residency.peak_padding, 25_MiB);
    EXPECT_EQ(sum.residency.pinned_host_bytes, 30_MiB);
    EXPECT_EQ(sum.residency.peak_passthrough_bytes, 40_MiB);
    EXPECT_EQ(sum.headroom, 50_MiB);
  }
}

TEST(Merged, PutsSeriesInOrder) {
  RunFigures earlier;
  earlier.residency.measured_passes = {{1, 0.5, 0, 4}, {2, 0, 4, 8}};
  earlier.residency.forgotten_passes = 7;
  earlier.residency.timeline = {event_at(1)};
  RunFigures later;
  later.residency.measured_passes = {{3, 1, 0, 5}};
  later.residency.forgotten_passes = 4;
  later.residency.timeline = {event_at(2), event_at(3)};
  const RunFigures sum = merged(earlier, later);
  EXPECT_THAT(
      sum.residency.measured_passes,
      ElementsAre(MeasuredPass{1, 0.5, 0, 4}, MeasuredPass{2, 0, 4, 8}, MeasuredPass{3, 1, 0, 5}));
  EXPECT_EQ(sum.residency.forgotten_passes, 11U);
  ASSERT_EQ(sum.residency.timeline.size(), 3U);
  EXPECT_EQ(sum.residency.timeline[0].time, event_at(1).time);
  EXPECT_EQ(sum.residency.timeline[2].time, event_at(3).time);
}

TEST(Merged, TakesSettingsAndBytesInUseFromTheLater) {
  RunFigures earlier;
  earlier.policy = PolicyKind::kSuperpipeline;
  earlier.budget = 1_GiB;
  earlier.context_bytes = 3_MiB;
  earlier.residency.managed_bytes = 5_MiB;
  RunFigures later;
  later.policy = PolicyKind::kNaive;
  later.k = 2;
  later.budget = 2_GiB;
  later.context_bytes = 4_MiB;
  later.residency.managed_bytes = 6_MiB;
  const RunFigures sum = merged(earlier, later);
  EXPECT_EQ(sum.policy, PolicyKind::kNaive);
  EXPECT_THAT(sum.k, Optional(2));
  EXPECT_EQ(sum.budget, 2_GiB);
  EXPECT_EQ(sum.context_bytes, 4_MiB);
  EXPECT_EQ(sum.residency.managed_bytes, 6_MiB);
}

RunFigures learned_run(Bytes layer, Bytes limit, std::size_t passes) {
  RunFigures figures;
  figures.residency.learned.layers_known = true;
  figures.residency.learned.layer_bytes = {layer};
  figures.residency.learned.pass_bytes = layer;
  figures.residency.learned.passes = passes;
  figures.residency.learned.mispredictions = 1;
  figures.residency.managed_limit = limit;
  return figures;
}

TEST(Merged, DescribesTheLayersThatWereLearnedLast) {
  const RunFigures sum = merged(learned_run(8_MiB, 80_MiB, 3), learned_run(2_MiB, 20_MiB, 4));
  EXPECT_THAT(sum.residency.learned.layer_bytes, ElementsAre(2_MiB));
  EXPECT_EQ(sum.residency.managed_limit, 20_MiB);
  EXPECT_EQ(sum.residency.learned.passes, 7U);
  EXPECT_EQ(sum.residency.learned.mispredictions, 2U);
}

// A pass of `layers` launches, each of a buffer of 2 MiB that it names alone.
std::shared_ptr<const PassLaunches> pass_of(std::uint32_t layers) {
  std::vector<BufferId> named;
  for (std::uint32_t layer = 0; layer < layers; ++layer) named.push_back(BufferId{layer});
  std::vector<LaunchRecord> launches;
  for (const BufferId& id : named) launches.push_back({KernelId{1}, {&id, 1}});
  const std::vector<Bytes> bytes(layers, 2_MiB);
  return std::make_shared<const PassLaunches>(launches, bytes, bytes);
}

TEST(NotePass, TellsLayersThatThePolicyDidNotLearn) {
  ResidencyStats stats;
  note_pass(pass_of(3), stats);
  EXPECT_TRUE(stats.learned.layers_known);
  EXPECT_THAT(stats.learned.layer_bytes, ElementsAre(2_MiB, 2_MiB, 2_MiB));
  EXPECT_EQ(stats.learned.pass_bytes, 6_MiB);
  ASSERT_NE(stats.learned.launches, nullptr);
  EXPECT_EQ(stats.learned.launches->size(), 3U);
}

TEST(NotePass, LeavesLearnedLayersAndTellsNoneOfOneBuffer) {
  ResidencyStats learned = learned_run(8_MiB, 80_MiB, 3).residency;
  note_pass(pass_of(3), learned);
  EXPECT_THAT(learned.learned.layer_bytes, ElementsAre(8_MiB));
  EXPECT_NE(learned.learned.launches, nullptr);
  ResidencyStats one;
  note_pass(pass_of(1), one);
  EXPECT_FALSE(one.learned.layers_known);
  EXPECT_TRUE(one.learned.layer_bytes.empty());
}

TEST(Merged, KeepsTheRefusalThatLackedMost) {
  RunFigures none;
  RunFigures small;
  small.residency.worst_refusal = {"small", 9_MiB, 1_MiB};
  RunFigures large;
  large.residency.worst_refusal = {"large", 5_MiB, 2_MiB};
  const auto kernel = [](const RunFigures& figures) {
    return figures.residency.worst_refusal.value_or(Refusal{}).kernel;
  };
  EXPECT_EQ(kernel(merged(small, none)), "small");
  EXPECT_EQ(kernel(merged(none, small)), "small");
  EXPECT_EQ(kernel(merged(small, large)), "large");
  EXPECT_EQ(kernel(merged(large, small)), "large");
}

TEST(Merged, DescribesTheEarlierLayersWhereTheLaterRunLearnedNone) {
  RunFigures later;
  later.residency.managed_limit = 20_MiB;
  later.residency.learned.passes = 1;
  later.residency.learned.mispredictions = 5;
  const RunFigures sum = merged(learned_run(8_MiB, 80_MiB, 3), later);
  EXPECT_THAT(sum.residency.learned.layer_bytes, ElementsAre(8_MiB));
  EXPECT_EQ(sum.residency.managed_limit, 80_MiB);
  EXPECT_EQ(sum.residency.learned.passes, 4U);
  EXPECT_EQ(sum.residency.learned.mispredictions, 6U);
}

TEST(Merged, KeepsAPassThatWasFoundWithoutLayers) {
  RunFigures later;
  later.residency.managed_limit = 20_MiB;
  later.residency.learned.launches = testing::pass_of({4_MiB});
  const RunFigures sum = merged(learned_run(8_MiB, 80_MiB, 3), later);
  EXPECT_EQ(sum.residency.learned.launches, later.residency.learned.launches);
  EXPECT_EQ(sum.residency.managed_limit, 20_MiB);
}

TEST(Merged, KeepsWhatOnlyTheEarlierRunMeasured) {
  RunFigures earlier;
  earlier.link_bytes_per_second = 5e9;
  earlier.overhead_ns_p50 = 100;
  earlier.overhead_ns_p99 = 900;
  RunFigures later;
  later.overhead_ns_p99 = 1;  // of no sample, as the median says
  const RunFigures kept = merged(earlier, later);
  EXPECT_THAT(kept.link_bytes_per_second, Optional(5e9));
  EXPECT_DOUBLE_EQ(kept.overhead_ns_p50, 100);
  EXPECT_DOUBLE_EQ(kept.overhead_ns_p99, 900);

  later.link_bytes_per_second = 6e9;
  later.overhead_ns_p50 = 200;
  const RunFigures replaced = merged(earlier, later);
  EXPECT_THAT(replaced.link_bytes_per_second, Optional(6e9));
  EXPECT_DOUBLE_EQ(replaced.overhead_ns_p50, 200);
  EXPECT_DOUBLE_EQ(replaced.overhead_ns_p99, 1);
}

TEST(RestoreLargerPasses, DescribesWhatTheProgramHasFreedSince) {
  const RunFigures full = learned_run(8_MiB, 80_MiB, 3);
  const LearnedSnapshot snapshot{full.residency.learned, full.residency.managed_limit};
  ResidencyStats stats;
  stats.learned.passes = 9;
  stats.learned.mispredictions = 2;
  restore_larger_passes(snapshot, stats);
  EXPECT_TRUE(stats.learned.layers_known);
  EXPECT_THAT(stats.learned.layer_bytes, ElementsAre(8_MiB));
  EXPECT_EQ(stats.learned.pass_bytes, 8_MiB);
  EXPECT_EQ(stats.managed_limit, 80_MiB);
  EXPECT_EQ(stats.learned.passes, 9U);
  EXPECT_EQ(stats.learned.mispredictions, 2U);
}

TEST(RestoreLargerPasses, LeavesPassesThatAreAsLarge) {
  const RunFigures before = learned_run(8_MiB, 80_MiB, 3);
  ResidencyStats stats = learned_run(8_MiB, 20_MiB, 4).residency;
  restore_larger_passes({before.residency.learned, before.residency.managed_limit}, stats);
  EXPECT_EQ(stats.managed_limit, 20_MiB);
  EXPECT_EQ(stats.learned.passes, 4U);
}

TEST(RunFigures, TellsTheScheduledKOrTheConfiguredOne) {
  RunFigures figures;
  figures.policy = PolicyKind::kSuperpipelinePaper;
  EXPECT_EQ(figures.scheduled_k(), 0);
  EXPECT_EQ(figures.scheduled_k_prime(), 0);
  figures.k = 6;
  figures.k_prime = 3;
  EXPECT_EQ(figures.scheduled_k(), 6);
  EXPECT_EQ(figures.scheduled_k_prime(), 3);
  figures.residency.learned.k = 4;
  figures.residency.learned.k_prime = 2;
  EXPECT_EQ(figures.scheduled_k(), 4);
  EXPECT_EQ(figures.scheduled_k_prime(), 2);
  figures.policy = PolicyKind::kSuperpipeline;
  EXPECT_EQ(figures.scheduled_k(), 4);
  EXPECT_EQ(figures.scheduled_k_prime(), 0) << "it moves pieces";
  figures.policy = PolicyKind::kResident;
  EXPECT_EQ(figures.scheduled_k(), 0);
  EXPECT_EQ(figures.scheduled_k_prime(), 0);
}

}  // namespace
}  // namespace superpipe
