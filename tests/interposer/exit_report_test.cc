#include "interposer/exit_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>

namespace superpipe {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Optional;

/// 8 layers of 16 MiB, 2 of them resident, 64 MiB/s: (128 - 32) MiB stream in 1500 ms a pass.
RunFigures streaming_run() {
  RunFigures figures;
  figures.policy = PolicyKind::kSuperpipeline;
  figures.k = 2;
  figures.k_prime = 1;
  figures.budget = 32_MiB;
  figures.context_bytes = 2_MiB;
  figures.peak_passthrough = 4_MiB;
  ResidencyStats& stats = figures.residency;
  stats.launches = 80;
  stats.peak_device_bytes = 36_MiB;
  stats.peak_managed_demand = 128_MiB;
  stats.managed_limit = 32_MiB;
  stats.pass_ms = {3000, 1800, 1700};
  stats.stall_ms = 3 * 1000;
  stats.prefetches = 7;
  stats.demand_fetches = 2;
  stats.clean_evictions = 1;
  stats.write_backs = 4;
  stats.h2d_bytes = 144_MiB;
  stats.learned.layers_known = true;
  stats.learned.layer_bytes.assign(8, 16_MiB);
  stats.learned.pass_bytes = 128_MiB;
  stats.learned.k = 2;
  stats.learned.k_prime = 1;
  stats.learned.passes = 3;
  figures.link_bytes_per_second = 64.0 * 1024 * 1024;
  return figures;
}

TEST(PassTimes, TakesTheMedianAndTheLinksBound) {
  const PassTimes times = pass_times(streaming_run());
  EXPECT_DOUBLE_EQ(times.pass_ms, 1800);
  EXPECT_THAT(times.bound_ms, Optional(1500.0));
}

TEST(PassTimes, IsBoundByComputeWhenAllFits) {
  RunFigures figures = streaming_run();
  figures.residency.managed_limit = 256_MiB;
  EXPECT_THAT(pass_times(figures).bound_ms, Optional(800.0));
}

TEST(PassTimes, HasNoBoundWithoutAMeasuredLink) {
  RunFigures figures = streaming_run();
  figures.link_bytes_per_second.reset();
  EXPECT_EQ(pass_times(figures).bound_ms, std::nullopt);
}

TEST(PassTimes, LeavesRoomForTransients) {
  RunFigures figures = streaming_run();
  figures.residency.peak_managed_demand = 144_MiB;  // 16 MiB of them transient
  EXPECT_THAT(pass_times(figures).bound_ms, Optional(1750.0));
}

TEST(StatisticsJson, HasExactlyTheFieldsOfTheContract) {
  const auto json = nlohmann::json::parse(statistics_json(streaming_run()));
  std::set<std::string> names;
  for (const auto& [name, value] : json.items()) names.insert(name);
  const std::set<std::string> contract = {"version",
                                          "policy",
                                          "k",
                                          "k_prime",
                                          "budget_bytes",
                                          "context_bytes",
                                          "layers",
                                          "layer_bytes",
                                          "launches",
                                          "accesses",
                                          "peak_device_bytes",
                                          "managed_bytes",
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
                                          "stall_ms",
                                          "passes",
                                          "pass_ms",
                                          "bound_ms",
                                          "pinned_host_bytes",
                                          "mispredictions",
                                          "launch_overhead_ns_p50",
                                          "launch_overhead_ns_p99",
                                          "errors"};
  EXPECT_EQ(names, contract);
}

TEST(StatisticsJson, SumsWhatTheContractSums) {
  const auto json = nlohmann::json::parse(statistics_json(streaming_run()));
  EXPECT_EQ(json["fetches"], 9);
  EXPECT_EQ(json["evictions"], 5);
  EXPECT_EQ(json["layers"], 8);
  EXPECT_EQ(json["layer_bytes"][0], 16 << 20);
  EXPECT_EQ(json["policy"], "superpipeline");
}

TEST(SummaryText, SaysWhatAUserAsksFor) {
  EXPECT_THAT(summary_text(streaming_run()),
              AllOf(HasSubstr("policy superpipeline, k 2, k' 1, layers 8"),
                    HasSubstr("peak device memory 38 MiB (without superpipe 134 MiB), 72 % less"),
                    HasSubstr("moved 144 MiB to the device"),
                    HasSubstr("3 passes of 1800.00 ms, 1.20 times the bound of 1500.00 ms"),
                    HasSubstr("stalled 56 %")));
}

TEST(SummaryText, DoesNotClaimPassesThatWereNotSeen) {
  RunFigures figures = streaming_run();
  figures.residency.pass_ms.clear();
  figures.residency.learned = {};
  const std::string text = summary_text(figures);
  EXPECT_THAT(text, HasSubstr("no repeated pass found"));
  EXPECT_THAT(text, HasSubstr("layers not found"));
}

TEST(WriteFileAtomically, ReplacesTheFileAndLeavesNoPart) {
  const std::filesystem::path folder =
      std::filesystem::path(::testing::TempDir()) / "write_atomically";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  const std::string path = folder / "stats.json";
  EXPECT_EQ(write_file_atomically(path, "old"), std::nullopt);
  EXPECT_EQ(write_file_atomically(path, "new"), std::nullopt);
  std::ostringstream content;
  content << std::ifstream(path).rdbuf();
  EXPECT_EQ(content.str(), "new");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
  std::filesystem::remove_all(folder);
}

TEST(WriteFileAtomically, NamesTheFileThatCannotBeWritten) {
  EXPECT_THAT(write_file_atomically("/nonexistent/stats.json", "x"),
              Optional(HasSubstr("/nonexistent/stats.json")));
}

}  // namespace
}  // namespace superpipe
