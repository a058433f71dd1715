#include "tools/superpipe/plan_json.h"

#include <cmath>
#include <string>

#include "policy/policy_engine.h"

namespace superpipe::cli {
namespace {

using nlohmann::json;

json json_of(const Prediction& row) {
  json said{{"policy", name_of(row.question.policy)}, {"runs", row.problem.empty()}};
  if (row.question.k) {
    said["k"] = *row.question.k;
    if (row.question.k_prime) said["k_prime"] = *row.question.k_prime;
  } else {
    said["gpu_mem_bytes"] = row.question.gpu_mem.count();
  }
  if (row.question.host_mem) said["host_mem_bytes"] = row.question.host_mem->count();
  if (!row.problem.empty()) {
    said["problem"] = row.problem;
    return said;
  }
  said["pass_ms"] = row.pass_ms;
  said["first_pass_ms"] = row.first_pass_ms;
  said["load_ms"] = row.load_ms;
  said["stall_ms"] = row.stall_ms;
  said["h2d_bytes"] = row.to_device_bytes;
  said["d2h_bytes"] = row.to_host_bytes;
  said["peak_device_bytes"] = row.peak.count();
  said["pinned_host_bytes"] = row.pinned_host.count();
  if (row.bound_ms) said["windowed_bound_ms"] = *row.bound_ms;
  if (row.physical_ms) said["bound_ms"] = *row.physical_ms;
  return said;
}

json json_of(const AssumedLink& link) {
  const char* source = "default";
  if (link.source == AssumedLink::Source::kUser) source = "flag";
  if (link.source == AssumedLink::Source::kTrace) source = "trace";
  if (link.source == AssumedLink::Source::kCard) source = "card";
  return {{"name", link.name},
          {"source", source},
          {"to_device_bytes_per_second", std::llround(link.speed.to_device.bytes_per_second)},
          {"to_host_bytes_per_second", std::llround(link.speed.to_host.bytes_per_second)}};
}

}  // namespace

json plan_json(const TracedProgram& program, const Planner& planner, const AssumedLink& link,
               std::span<const Prediction> rows) {
  json said{{"command", program.run().command},
            {"device", program.run().device_name},
            {"link", json_of(link)},
            {"launches", program.launches()},
            {"passes", planner.passes().size()},
            {"pass_launches", planner.launches_of_pass()},
            {"complete", program.ending().is_complete},
            {"dropped_events", program.ending().dropped},
            {"graph_launches", program.graph_launches()},
            {"refusals", program.refusals()},
            {"measured_compute_share", program.measured_share()},
            {"compute_is_fitted", program.times_are_fitted()},
            {"writes_are_known", program.run().to_host > Bytes{}},
            {"needed_bytes", planner.needed().count()},
            {"least_bytes", planner.least().count()},
            {"overhead_bytes", planner.overhead().count()},
            {"resident_pass_ms", planner.resident_pass_ms()},
            {"plans", json::array()}};
  for (const Prediction& row : rows) said["plans"].push_back(json_of(row));
  std::string problem;
  if (const auto accuracy = planner.accuracy(&problem)) {
    said["accuracy"] = {{"measured_pass_ms", accuracy->measured_pass_ms},
                        {"predicted_pass_ms", accuracy->predicted_pass_ms},
                        {"pass_error", accuracy->pass_error()},
                        {"measured_peak_bytes", accuracy->measured_peak.count()},
                        {"predicted_peak_bytes", accuracy->predicted_peak.count()},
                        {"link_is_measured", accuracy->has_own_link},
                        {"is_near", accuracy->is_near()}};
  } else {
    said["accuracy_problem"] = problem;
  }
  return said;
}

}  // namespace superpipe::cli
