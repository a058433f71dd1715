// The report as text for people.

#include <algorithm>
#include <iomanip>
#include <sstream>
#include <string_view>

#include "policy/budget.h"
#include "policy/requirements.h"
#include "tools/superpipe/doctor_report.h"

namespace superpipe::cli {
namespace {

std::string with_unit(std::uint64_t bytes) { return format_bytes(Bytes{bytes}); }

std::string with_unit(const std::optional<Bytes>& bytes, const char* otherwise) {
  return bytes ? format_bytes(*bytes) : otherwise;
}

std::string with_unit(const std::optional<std::uint64_t>& bytes, const char* otherwise) {
  return bytes ? with_unit(*bytes) : otherwise;
}

void write_driver(const Report& report, std::ostream& out) {
  const DriverProbe& driver = report.driver;
  out << "driver     " << driver.path;
  if (driver.outcome == DriverProbe::Outcome::kUsable) {
    out << "  (from " << report.driver_source << ", CUDA " << cuda_version(driver.version) << ')';
  } else {
    out << (driver.outcome == DriverProbe::Outcome::kNotFound ? "  (not found" : "  (not usable")
        << ", from " << report.driver_source << ')';
  }
  out << '\n';
  if (!report.kernel_module.empty()) out << "           " << report.kernel_module << '\n';
}

void write_device(std::size_t index, const ProbedDevice& device, std::ostream& out) {
  const auto yes = [](bool value) { return value ? "yes" : "no"; };
  out << "device " << index << "   " << device.name << ", " << with_unit(device.total_bytes)
      << ", compute " << device.compute_major << '.' << device.compute_minor << ", "
      << device.copy_engines << " copy engines, virtual memory " << yes(device.virtual_memory)
      << ", pools " << yes(device.memory_pools) << '\n'
      << "           pages on the host: by NUMA node " << yes(device.host_located_memory)
      << ", any " << yes(device.capability("host_pages") != 0) << "; native atomics there "
      << yes(device.capability("native_atomics_on_host_memory") != 0) << "; compression "
      << yes(device.capability("generic_compression") != 0) << "; tensor maps "
      << yes(device.capability("tensor_maps") != 0) << "; nearest host NUMA node "
      << (device.host_numa_node >= 0 ? std::to_string(device.host_numa_node) : "unknown");
  if (const int node = numa_node_of_pci(device.pci_address); node >= 0) {
    out << " (Linux says " << node << " for " << device.pci_address << ')';
  }
  out << '\n';
}

void write_host(const HostDescription& host, std::ostream& out) {
  const HostMemory& memory = host.memory;
  out << "host       " << with_unit(memory.available, "unknown") << " available of "
      << with_unit(memory.total, "unknown") << ", cgroup limit ";
  if (memory.cgroup) {
    out << format_bytes(memory.cgroup->limit) << " (v" << memory.cgroup->version << ", "
        << with_unit(memory.cgroup->used, "unknown") << " used)";
  } else {
    out << "none";
  }
  out << ", lockable (ulimit -l) " << with_unit(host.lockable, "unlimited") << '\n';
  if (host.numa_nodes.size() < 2) return;
  for (const NumaNode& node : host.numa_nodes) {
    out << "           NUMA node " << node.id << ": " << with_unit(node.available, "unknown")
        << " free of " << with_unit(node.total, "unknown") << ", processors " << node.cpus << '\n';
  }
}

/// The width of a column that the name of each question fits, and two spaces.
int name_column() {
  std::size_t longest = 0;
  for (const Probe& probe : all_probes()) {
    longest = std::max(longest, std::string_view(probe.name).size());
  }
  return static_cast<int>(longest) + 2;
}

void write_probe(const ProbeResult& result, std::ostream& out) {
  std::ostringstream head;
  head << std::left << std::setw(name_column()) << result.probe->name;
  out << "  " << head.str();
  if (result.outcome == ProbeResult::Outcome::kAnswered) {
    out << result.answer;
  } else {
    std::string outcome = name_of(result.outcome);
    for (char& c : outcome) c = c == '_' ? ' ' : c;
    out << outcome << ": " << result.reason;
    // What it found before is worth more than nothing.
    if (!result.answer.empty()) out << "; before that: " << result.answer;
  }
  if (result.seconds > 0) {
    out << "  (" << std::fixed << std::setprecision(1) << result.seconds << " s)";
  }
  out << '\n';
}

}  // namespace

void write_text(const Report& report, std::ostream& out) {
  out << "superpipe " << SUPERPIPE_VERSION;
  if (report.simulated) {
    out << ", on a SIMULATED GPU (simgpu): nothing below is a property of real hardware";
  }
  out << '\n';
  out << "library    " << report.parts.preload_library
      << (report.library_present ? "" : "  (missing)") << '\n';
  write_driver(report, out);
  for (std::size_t i = 0; i < report.driver.devices.size(); ++i) {
    write_device(i, report.driver.devices[i], out);
  }
  write_host(report.host, out);
  if (!report.probes.empty()) {
    out << "questions  asked of device 0" << (report.quick ? ", in their quick form" : "")
        << (report.simulated ? ", SIMULATED" : "") << '\n';
    for (const ProbeResult& result : report.probes) write_probe(result, out);
  }
  if (report.driver.outcome == DriverProbe::Outcome::kUsable && !report.driver.devices.empty()) {
    out << "would use\n";
    for (const Feature& feature : features_of(report)) {
      std::string name = feature.name;
      for (char& c : name) c = c == '_' ? ' ' : c;
      out << "  " << name << ": " << feature.choice << "\n      "
          << feature.reason(ProbeCalled::kByName) << '\n';
    }
  }
  for (const Finding& finding : report.findings) {
    out << (finding.problem ? "problem    " : "note       ") << finding.says(ProbeCalled::kByName)
        << "; " << finding.advice << '\n';
  }
  out << (report.ready() ? "ready      superpipe run "
                         : "not ready  programs cannot run under superpipe here");
  if (report.ready()) out << (report.simulated ? "--simulate " : "") << "--k 4 -- COMMAND";
  out << '\n';
}

}  // namespace superpipe::cli
