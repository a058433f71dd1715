// The report as JSON. docs/doctor.md describes it; what is there changes only with schema_version.

#include <nlohmann/json.hpp>

#include "tools/superpipe/doctor_report.h"

namespace superpipe::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kSchemaVersion = 1;

Json optional(const std::optional<Bytes>& value) {
  return value ? Json(value->count()) : Json(nullptr);
}

Json optional(const std::optional<std::uint64_t>& value) {
  return value ? Json(*value) : Json(nullptr);
}

const char* name_of(DriverProbe::Outcome outcome) {
  switch (outcome) {
    case DriverProbe::Outcome::kUsable:
      return "usable";
    case DriverProbe::Outcome::kNotFound:
      return "not_found";
    case DriverProbe::Outcome::kNotADriver:
      return "not_a_driver";
    case DriverProbe::Outcome::kTooOld:
      return "too_old";
    case DriverProbe::Outcome::kInitFailed:
      return "init_failed";
    case DriverProbe::Outcome::kCrashed:
      return "crashed";
    case DriverProbe::Outcome::kHung:
      return "hung";
  }
  return "unknown";
}

Json device_json(const ProbedDevice& device) {
  Json capabilities = Json::object();
  for (const auto& [name, value] : device.capabilities) capabilities[name] = value;
  const int node = numa_node_of_pci(device.pci_address);
  return {{"name", device.name},
          {"total_bytes", device.total_bytes},
          {"compute", {device.compute_major, device.compute_minor}},
          {"copy_engines", device.copy_engines},
          {"virtual_memory", device.virtual_memory},
          {"memory_pools", device.memory_pools},
          {"host_located_memory", device.host_located_memory},
          {"host_numa_node", device.host_numa_node},
          {"pci_address", device.pci_address},
          {"pci_numa_node", node},
          {"capabilities", capabilities}};
}

Json host_json(const HostDescription& host) {
  const HostMemory& memory = host.memory;
  Json nodes = Json::array();
  for (const NumaNode& node : host.numa_nodes) {
    nodes.push_back({{"id", node.id},
                     {"total_bytes", optional(node.total)},
                     {"free_bytes", optional(node.available)},
                     {"cpus", node.cpus}});
  }
  return {
      {"total_bytes", optional(memory.total)},
      {"available_bytes", optional(memory.available)},
      {"cgroup_version", memory.cgroup ? memory.cgroup->version : 0},
      {"cgroup_limit_bytes", memory.cgroup ? Json(memory.cgroup->limit.count()) : Json(nullptr)},
      {"cgroup_used_bytes", memory.cgroup ? optional(memory.cgroup->used) : Json(nullptr)},
      {"lockable_bytes", optional(host.lockable)},
      {"usable_bytes", optional(memory.usable())},
      {"numa_nodes", nodes}};
}

Json probe_json(const ProbeResult& result) {
  return {{"id", result.probe->id},
          {"name", result.probe->name},
          {"question", result.probe->question},
          {"outcome", name_of(result.outcome)},
          {"reason", result.reason},
          {"answer", result.answer},
          {"holds", result.holds ? Json(*result.holds) : Json(nullptr)},
          {"seconds", result.seconds},
          {"call", result.call},
          {"code", result.code},
          {"signal", result.signal},
          {"figures", result.figures}};
}

}  // namespace

void write_json(const Report& report, std::ostream& out) {
  Json json;
  json["simulated"] = report.simulated;
  json["schema_version"] = kSchemaVersion;
  json["version"] = SUPERPIPE_VERSION;
  json["ready"] = report.ready();
  json["quick"] = report.quick;
  json["library"] = {{"path", report.parts.preload_library}, {"present", report.library_present}};
  json["driver"] = {{"path", report.driver.path},
                    {"source", report.driver_source},
                    {"outcome", name_of(report.driver.outcome)},
                    {"detail", report.driver.detail},
                    {"cuda_version", report.driver.version},
                    {"batch_copies", report.driver.batch_copies},
                    {"kernel_module", report.kernel_module}};
  json["devices"] = Json::array();
  for (const ProbedDevice& device : report.driver.devices) {
    json["devices"].push_back(device_json(device));
  }
  json["host"] = host_json(report.host);
  json["probes"] = Json::array();
  for (const ProbeResult& result : report.probes) json["probes"].push_back(probe_json(result));
  json["would_use"] = {{"evicted", "unmapped"}, {"writeback", "digest"}, {"allocator", "async"}};
  json["features"] = Json::array();
  for (const Feature& feature : features_of(report)) {
    json["features"].push_back({{"name", feature.name},
                                {"choice", feature.choice},
                                {"why", feature.reason(ProbeCalled::kByCode)}});
  }
  json["findings"] = Json::array();
  for (const Finding& finding : report.findings) {
    json["findings"].push_back({{"level", finding.problem ? "problem" : "note"},
                                {"what", finding.says(ProbeCalled::kByCode)},
                                {"advice", finding.advice}});
  }
  // Names of devices and paths come from outside: what is not UTF-8 is replaced, not thrown at.
  out << json.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
}

}  // namespace superpipe::cli
