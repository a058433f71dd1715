#include "tools/superpipe/doctor_command.h"

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "policy/budget.h"
#include "tools/superpipe/driver_probe.h"
#include "tools/superpipe/exit_code.h"
#include "tools/superpipe/host_limits.h"
#include "tools/superpipe/installation.h"
#include "tools/superpipe/run_environment.h"

namespace superpipe::cli {
namespace {

constexpr std::chrono::seconds kProbeLimit{30};

// Something that stands in the way (a problem) or that is good to know (a note), and what to do
// about it.
struct Finding {
  bool problem;
  std::string what;
  std::string advice;
};

struct Report {
  bool simulated = false;
  Installation parts;
  bool library_present = false;
  std::string driver_source;  // how it was chosen
  DriverProbe driver;
  HostLimits host;
  std::vector<Finding> findings;

  [[nodiscard]] bool ready() const {
    for (const Finding& finding : findings) {
      if (finding.problem) return false;
    }
    return true;
  }
};

std::string with_unit(std::uint64_t bytes) { return format_bytes(Bytes{bytes}); }

std::string with_unit(const std::optional<std::uint64_t>& bytes, const char* otherwise) {
  return bytes ? with_unit(*bytes) : otherwise;
}

std::string cuda_version(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

void judge_driver(Report& report) {
  using Outcome = DriverProbe::Outcome;
  const DriverProbe& driver = report.driver;
  const auto problem = [&report](std::string what, std::string advice) {
    report.findings.push_back({true, std::move(what), std::move(advice)});
  };
  const bool named = report.driver_source == "SUPERPIPE_DRIVER";
  switch (driver.outcome) {
    case Outcome::kNotFound:
      if (report.simulated) {
        problem("simgpu's driver is missing: " + driver.path,
                "install superpipe again (cmake --install), or build all of it");
        return;
      }
      problem(named ? "SUPERPIPE_DRIVER=" + driver.path + " does not exist"
                    : "no CUDA driver (libcuda.so.1) was found",
              named ? "unset it, or name the CUDA driver library"
                    : "install NVIDIA's driver, or use a simulated GPU: superpipe run --simulate");
      return;
    case Outcome::kNotADriver:
      problem(driver.path + " is not a CUDA driver: " + driver.detail,
              named ? "unset SUPERPIPE_DRIVER, or name the CUDA driver library"
                    : "reinstall NVIDIA's driver");
      return;
    case Outcome::kInitFailed:
      problem("the driver does not start: " + driver.detail,
              report.simulated ? "check the SIMGPU_* variables"
                               : "check that a GPU is visible here (nvidia-smi, "
                                 "CUDA_VISIBLE_DEVICES, the container's device access)");
      return;
    case Outcome::kCrashed:
    case Outcome::kHung:
      problem("the driver is not usable: " + driver.detail,
              "check that the driver's library and its kernel module have the same version");
      return;
    case Outcome::kUsable:
      break;
  }
  if (driver.devices.empty()) {
    problem("the driver has no device", "check that a GPU is visible (CUDA_VISIBLE_DEVICES)");
  }
  for (std::size_t i = 0; i < driver.devices.size(); ++i) {
    if (!driver.devices[i].virtual_memory) {
      problem("device " + std::to_string(i) + " has no virtual memory management",
              "superpipe needs it to move buffers without changing their addresses; use another "
              "device (CUDA_VISIBLE_DEVICES)");
    }
  }
}

void judge_host(Report& report) {
  const auto usable = report.host.usable();
  if (!usable) {
    report.findings.push_back({false, "how much host memory is free is not known",
                               "cap the host store yourself: --host-mem SIZE"});
    return;
  }
  std::uint64_t device_bytes = 0;
  for (const ProbedDevice& device : report.driver.devices) device_bytes += device.total_bytes;
  if (*usable < device_bytes) {
    report.findings.push_back(
        {false,
         "host memory (" + with_unit(*usable) + " usable) is smaller than device memory (" +
             with_unit(device_bytes) + ")",
         "what is evicted lies in host memory: a model can be larger than the device only by what "
         "the host can hold"});
  }
  if (!report.simulated && report.host.locked && *report.host.locked < *usable) {
    report.findings.push_back(
        {false, "this process may lock only " + with_unit(*report.host.locked) + " (ulimit -l)",
         "NVIDIA's driver pins memory without this limit; in some containers it does count: raise "
         "it if pinning fails"});
  }
}

Report examine(const DoctorOptions& options) {
  Report report;
  report.simulated = options.simulate;
  report.parts = this_installation();
  report.library_present = is_readable_file(report.parts.preload_library);
  if (!report.library_present) {
    report.findings.push_back(
        {true, "superpipe's own library is missing: " + report.parts.preload_library,
         "install superpipe again (cmake --install), or build all of it"});
  }
  std::string library = "libcuda.so.1";
  report.driver_source = "the loader's search path";
  const char* const chosen = std::getenv("SUPERPIPE_DRIVER");
  if (options.simulate) {
    library = report.parts.simgpu_driver;
    report.driver_source = "--simulate";
  } else if (chosen != nullptr && *chosen != '\0') {
    library = chosen;
    report.driver_source = "SUPERPIPE_DRIVER";
  }
  report.driver = probe_driver(library, ProbeDepth::kDevices, kProbeLimit);
  report.host = read_host_limits();
  judge_driver(report);
  judge_host(report);
  if (switched_off()) {
    report.findings.push_back(
        {false, "SUPERPIPE_OFF=1 is set: programs run unmanaged", "unset it to use superpipe"});
  }
  return report;
}

void print_text(const Report& report) {
  std::ostream& out = std::cout;
  out << "superpipe " << SUPERPIPE_VERSION;
  if (report.simulated) {
    out << ", on a SIMULATED GPU (simgpu): nothing below is a property of real hardware\n";
  } else {
    out << '\n';
  }
  const DriverProbe& driver = report.driver;
  const bool usable = driver.outcome == DriverProbe::Outcome::kUsable;
  out << "library    " << report.parts.preload_library
      << (report.library_present ? "" : "  (missing)") << '\n';
  out << "driver     " << driver.path;
  if (!usable) {
    out << (driver.outcome == DriverProbe::Outcome::kNotFound ? "  (not found" : "  (not usable")
        << ", from " << report.driver_source << ')';
  } else {
    out << "  (from " << report.driver_source << ", CUDA " << cuda_version(driver.version) << ')';
  }
  out << '\n';
  for (std::size_t i = 0; i < driver.devices.size(); ++i) {
    const ProbedDevice& device = driver.devices[i];
    out << "device " << i << "   " << device.name << ", " << with_unit(device.total_bytes)
        << ", compute " << device.compute_major << '.' << device.compute_minor << ", "
        << device.copy_engines << " copy engines, virtual memory "
        << (device.virtual_memory ? "yes" : "no") << ", pools "
        << (device.memory_pools ? "yes" : "no") << ", host-located memory "
        << (device.host_located_memory ? "yes" : "no") << ", host NUMA node "
        << device.host_numa_node << '\n';
  }
  const HostLimits& host = report.host;
  out << "host       " << with_unit(host.available, "unknown") << " available of "
      << with_unit(host.total, "unknown") << ", cgroup limit "
      << with_unit(host.cgroup_limit, "none") << ", lockable (ulimit -l) "
      << with_unit(host.locked, "unlimited") << '\n';
  if (usable && !driver.devices.empty()) {
    out << "would use  physical pages mapped at fixed addresses, evicted buffers unmapped, copies "
           "on a stream of their own each way, up to "
        << with_unit(host.usable(), "an unknown amount") << " of host memory\n";
  }
  for (const Finding& finding : report.findings) {
    out << (finding.problem ? "problem    " : "note       ") << finding.what << "; "
        << finding.advice << '\n';
  }
  out << (report.ready() ? "ready      superpipe run "
                         : "not ready  programs cannot run under superpipe here");
  if (report.ready()) out << (report.simulated ? "--simulate " : "") << "--k 4 -- COMMAND";
  out << '\n';
}

const char* name_of(DriverProbe::Outcome outcome) {
  switch (outcome) {
    case DriverProbe::Outcome::kUsable:
      return "usable";
    case DriverProbe::Outcome::kNotFound:
      return "not_found";
    case DriverProbe::Outcome::kNotADriver:
      return "not_a_driver";
    case DriverProbe::Outcome::kInitFailed:
      return "init_failed";
    case DriverProbe::Outcome::kCrashed:
      return "crashed";
    case DriverProbe::Outcome::kHung:
      return "hung";
  }
  return "unknown";
}

void print_json(const Report& report) {
  using Json = nlohmann::ordered_json;
  const auto optional = [](const std::optional<std::uint64_t>& value) {
    return value ? Json(*value) : Json(nullptr);
  };
  Json out;
  out["simulated"] = report.simulated;
  out["version"] = SUPERPIPE_VERSION;
  out["ready"] = report.ready();
  out["library"] = {{"path", report.parts.preload_library}, {"present", report.library_present}};
  out["driver"] = {{"path", report.driver.path},
                   {"source", report.driver_source},
                   {"outcome", name_of(report.driver.outcome)},
                   {"detail", report.driver.detail},
                   {"cuda_version", report.driver.version}};
  out["devices"] = Json::array();
  for (const ProbedDevice& device : report.driver.devices) {
    out["devices"].push_back({{"name", device.name},
                              {"total_bytes", device.total_bytes},
                              {"compute", {device.compute_major, device.compute_minor}},
                              {"copy_engines", device.copy_engines},
                              {"virtual_memory", device.virtual_memory},
                              {"memory_pools", device.memory_pools},
                              {"host_located_memory", device.host_located_memory},
                              {"host_numa_node", device.host_numa_node}});
  }
  out["host"] = {{"total_bytes", optional(report.host.total)},
                 {"available_bytes", optional(report.host.available)},
                 {"cgroup_limit_bytes", optional(report.host.cgroup_limit)},
                 {"lockable_bytes", optional(report.host.locked)},
                 {"usable_bytes", optional(report.host.usable())}};
  out["would_use"] = {{"evicted", "unmapped"}, {"writeback", "always"}, {"allocator", "async"}};
  out["findings"] = Json::array();
  for (const Finding& finding : report.findings) {
    out["findings"].push_back({{"level", finding.problem ? "problem" : "note"},
                               {"what", finding.what},
                               {"advice", finding.advice}});
  }
  // Names of devices and paths come from outside: what is not UTF-8 is replaced, not thrown at.
  std::cout << out.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
}

}  // namespace

int doctor_command(const DoctorOptions& options) {
  const Report report = examine(options);
  if (options.json) {
    print_json(report);
  } else {
    print_text(report);
  }
  return report.ready() ? kSuccess : kProblemFound;
}

}  // namespace superpipe::cli
