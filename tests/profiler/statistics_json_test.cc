#include "profiler/statistics_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "tests/profiler/example_figures.h"

namespace superpipe {
namespace {

using ::superpipe::testing::streaming_run;

TEST(StatisticsJson, HasExactlyTheFieldsOfTheContract) {
  const auto json = nlohmann::json::parse(statistics_json(streaming_run(), "1.2.3"));
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
  const auto json = nlohmann::json::parse(statistics_json(streaming_run(), "1.2.3"));
  EXPECT_EQ(json["fetches"], 9);
  EXPECT_EQ(json["evictions"], 5);
  EXPECT_EQ(json["layers"], 8);
  EXPECT_EQ(json["layer_bytes"][0], 16 << 20);
  EXPECT_EQ(json["policy"], "superpipeline");
}

}  // namespace
}  // namespace superpipe
