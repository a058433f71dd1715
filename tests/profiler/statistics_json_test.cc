#include "profiler/statistics_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>

#include "tests/profiler/example_figures.h"

namespace superpipe {
namespace {

using ::superpipe::testing::streaming_run;

std::string statistics_json(const RunFigures& figures, std::string_view version) {
  return superpipe::statistics_json(figures, pass_times(figures), ProcessName{4711}, version);
}

TEST(StatisticsJson, HasExactlyTheFieldsOfTheContract) {
  const auto json = nlohmann::json::parse(statistics_json(streaming_run(), "1.2.3"));
  std::set<std::string> names;
  for (const auto& [name, value] : json.items()) names.insert(name);
  const std::set<std::string> contract = {"version",
                                          "process",
                                          "rank",
                                          "policy",
                                          "k",
                                          "k_prime",
                                          "budget_bytes",
                                          "budget_changes",
                                          "context_bytes",
                                          "layers",
                                          "layer_bytes",
                                          "launches",
                                          "accesses",
                                          "peak_device_bytes",
                                          "managed_bytes",
                                          "padding_bytes",
                                          "passthrough_bytes",
                                          "headroom_bytes",
                                          "h2d_bytes",
                                          "d2h_bytes",
                                          "fetches",
                                          "demand_fetches",
                                          "prefetches",
                                          "evictions",
                                          "clean_evictions",
                                          "write_backs",
                                          "precleaned",
                                          "digests",
                                          "unchanged_evictions",
                                          "pinned_buffers",
                                          "left_out_launches",
                                          "refused_allocations",
                                          "refused_operations",
                                          "least_budget_bytes",
                                          "tensor_maps",
                                          "stall_ms",
                                          "passes",
                                          "pass_ms",
                                          "pass_launches",
                                          "bound_ms",
                                          "windowed_bound_ms",
                                          "avoidable_stall_share",
                                          "pinned_host_bytes",
                                          "mispredictions",
                                          "launch_overhead_ns_p50",
                                          "launch_overhead_ns_p99",
                                          "errors"};
  EXPECT_EQ(names, contract);
}

TEST(StatisticsJson, HasNoRankWhereTheProcessHasNone) {
  EXPECT_TRUE(nlohmann::json::parse(statistics_json(streaming_run(), "1.2.3"))["rank"].is_null());
}

TEST(StatisticsJson, SumsWhatTheContractSums) {
  const auto json = nlohmann::json::parse(statistics_json(streaming_run(), "1.2.3"));
  EXPECT_EQ(json["fetches"], 9);
  EXPECT_EQ(json["evictions"], 5);
  EXPECT_EQ(json["layers"], 8);
  EXPECT_EQ(json["layer_bytes"][0], 16 << 20);
  EXPECT_EQ(json["policy"], "superpipeline");
}

TEST(StatisticsJson, PutsEachFigureUnderItsName) {
  RunFigures figures;
  figures.policy = PolicyKind::kNaive;
  figures.k = 3;
  figures.k_prime = 2;
  figures.budget = Bytes{101};
  figures.context_bytes = Bytes{102};
  figures.headroom = Bytes{104};
  figures.launches_without_buffers = 1000;
  figures.refused_operations = 131;
  figures.overhead_ns_p50 = 105;
  figures.overhead_ns_p99 = 106;
  ResidencyStats& stats = figures.residency;
  stats.launches = 107;
  stats.accesses = 108;
  stats.peak_device_bytes = Bytes{109};
  stats.peak_passthrough_bytes = Bytes{103};
  stats.peak_managed_demand = Bytes{110};
  stats.peak_padding = Bytes{125};
  stats.h2d_bytes = Bytes{111};
  stats.d2h_bytes = Bytes{112};
  stats.demand_fetches = 113;
  stats.prefetches = 114;
  stats.clean_evictions = 115;
  stats.write_backs = 116;
  stats.precleaned = 129;
  stats.digests = 123;
  stats.unchanged = 124;
  stats.pinned_buffers = 126;
  stats.left_out_launches = 127;
  stats.refused_allocations = 137;
  stats.worst_refusal = {"multiply", Bytes{500}, Bytes{30}};
  figures.tensor_maps = 128;
  stats.stall_ms = 117;
  stats.pinned_host_bytes = Bytes{118};
  stats.errors = 119;
  stats.budget_changes = 125;
  stats.learned.layer_bytes = {Bytes{50}, Bytes{70}};
  stats.learned.mispredictions = 122;
  const PassTimes times{3600, 24, 3200, 1000, 2400, 0.375, 121};
  const nlohmann::json expected = {{"version", "1.2.3"},
                                   {"process", 4711},
                                   {"rank", 3},
                                   {"policy", "naive"},
                                   {"k", 3},
                                   {"k_prime", 2},
                                   {"budget_bytes", 101},
                                   {"budget_changes", 125},
                                   {"context_bytes", 102},
                                   {"layers", 2},
                                   {"layer_bytes", {50, 70}},
                                   {"launches", 1107},
                                   {"accesses", 108},
                                   {"peak_device_bytes", 109},
                                   {"managed_bytes", 110},
                                   {"padding_bytes", 125},
                                   {"passthrough_bytes", 103},
                                   {"headroom_bytes", 104},
                                   {"h2d_bytes", 111},
                                   {"d2h_bytes", 112},
                                   {"fetches", 227},
                                   {"demand_fetches", 113},
                                   {"prefetches", 114},
                                   {"evictions", 231},
                                   {"clean_evictions", 115},
                                   {"write_backs", 116},
                                   {"precleaned", 129},
                                   {"digests", 123},
                                   {"unchanged_evictions", 124},
                                   {"pinned_buffers", 126},
                                   {"left_out_launches", 127},
                                   {"refused_allocations", 137},
                                   {"refused_operations", 131},
                                   {"least_budget_bytes", 233},
                                   {"tensor_maps", 128},
                                   {"stall_ms", 117.0},
                                   {"passes", 121},
                                   {"pass_ms", 3600.0},
                                   {"pass_launches", 24.0},
                                   {"bound_ms", 1000.0},
                                   {"windowed_bound_ms", 2400.0},
                                   {"avoidable_stall_share", 0.375},
                                   {"pinned_host_bytes", 118},
                                   {"mispredictions", 122},
                                   {"launch_overhead_ns_p50", 105.0},
                                   {"launch_overhead_ns_p99", 106.0},
                                   {"errors", 119}};
  EXPECT_EQ(nlohmann::json::parse(
                superpipe::statistics_json(figures, times, ProcessName{4711, 3}, "1.2.3")),
            expected);
}

using ::superpipe::testing::following;

TEST(StatisticsJson, SaysHowFarAPlanWasFollowed) {
  RunFigures figures = streaming_run();
  figures.residency.learned.following = following(30, true);
  const auto plan = nlohmann::json::parse(statistics_json(figures, "1"))["plan"];
  EXPECT_EQ(plan["launches"], 40);
  EXPECT_EQ(plan["followed"], 30);
  EXPECT_EQ(plan["left_at"], 30);
  EXPECT_EQ(plan["is_of_another_program"], false);
  figures.residency.learned.following = following(40, false);
  EXPECT_TRUE(nlohmann::json::parse(statistics_json(figures, "1"))["plan"]["left_at"].is_null());
}

TEST(StatisticsJson, WritesNoWindowedBoundThatIsNotKnown) {
  RunFigures figures = streaming_run();
  figures.link_bytes_per_second.reset();
  const auto json = nlohmann::json::parse(statistics_json(figures, "1.2.3"));
  EXPECT_EQ(json["bound_ms"], 0.0);
  EXPECT_TRUE(json["windowed_bound_ms"].is_null());
  EXPECT_TRUE(json["avoidable_stall_share"].is_null());
}

}  // namespace
}  // namespace superpipe
