#include "profiler/statistics_json.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

namespace superpipe {
namespace {

nlohmann::ordered_json or_null(const std::optional<double>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
}

}  // namespace

std::string statistics_json(const RunFigures& figures, const PassTimes& times,
                            const ProcessName& process, std::string_view version) {
  const ResidencyStats& stats = figures.residency;
  nlohmann::ordered_json layers = nlohmann::ordered_json::array();
  for (const Bytes size : stats.learned.layer_bytes) layers.push_back(size.count());
  nlohmann::ordered_json json;
  json["version"] = version;
  json["process"] = process.id;
  json["rank"] = process.rank ? nlohmann::ordered_json(*process.rank) : nullptr;
  json["policy"] = name_of(figures.policy);
  json["k"] = figures.scheduled_k();
  json["k_prime"] = figures.scheduled_k_prime();
  json["budget_bytes"] = figures.budget.count();
  json["budget_changes"] = stats.budget_changes;
  json["context_bytes"] = figures.context_bytes.count();
  if (const PlanFollowing& following = stats.learned.following; following.recorded > 0) {
    json["plan"] = {
        {"launches", following.recorded},
        {"followed", following.followed},
        {"left_at", following.is_left ? nlohmann::ordered_json(following.left_at) : nullptr},
        {"is_of_another_program", following.is_other_program()}};
  }
  json["layers"] = stats.learned.layer_bytes.size();
  json["layer_bytes"] = std::move(layers);
  json["launches"] = figures.launches();
  json["accesses"] = stats.accesses;
  json["peak_device_bytes"] = stats.peak_device_bytes.count();
  json["managed_bytes"] = stats.peak_managed_demand.count();
  json["padding_bytes"] = stats.peak_padding.count();
  json["passthrough_bytes"] = stats.peak_passthrough_bytes.count();
  json["headroom_bytes"] = figures.headroom.count();
  json["h2d_bytes"] = stats.h2d_bytes.count();
  json["d2h_bytes"] = stats.d2h_bytes.count();
  json["fetches"] = stats.demand_fetches + stats.prefetches;
  json["demand_fetches"] = stats.demand_fetches;
  json["prefetches"] = stats.prefetches;
  json["evictions"] = stats.clean_evictions + stats.write_backs;
  json["clean_evictions"] = stats.clean_evictions;
  json["write_backs"] = stats.write_backs;
  json["precleaned"] = stats.precleaned;
  json["digests"] = stats.digests;
  json["unchanged_evictions"] = stats.unchanged;
  json["pinned_buffers"] = stats.pinned_buffers;
  json["left_out_launches"] = stats.left_out_launches;
  json["refused_allocations"] = stats.refused_allocations;
  json["refused_operations"] = figures.refused_operations;
  json["least_budget_bytes"] = figures.least_budget().value_or(Bytes{}).count();
  json["tensor_maps"] = figures.tensor_maps;
  json["stall_ms"] = stats.stall_ms;
  json["passes"] = times.passes;
  json["pass_ms"] = times.pass_ms;
  json["pass_launches"] = times.pass_launches;
  json["bound_ms"] = times.bound_ms.value_or(0);
  json["windowed_bound_ms"] = or_null(times.windowed_bound_ms);
  json["avoidable_stall_share"] = or_null(times.avoidable_stall_share);
  json["pinned_host_bytes"] = stats.pinned_host_bytes.count();
  json["mispredictions"] = stats.learned.mispredictions;
  json["launch_overhead_ns_p50"] = figures.overhead_ns_p50;
  json["launch_overhead_ns_p99"] = figures.overhead_ns_p99;
  json["errors"] = stats.errors;
  return json.dump(2) + "\n";
}

}  // namespace superpipe
