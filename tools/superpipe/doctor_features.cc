// What superpipe will do on this machine, feature by feature.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "policy/budget.h"
#include "tools/superpipe/doctor_report.h"

namespace superpipe::cli {
namespace {

const ProbeResult* answered(const Report& report, const char* id) {
  const ProbeResult* const result = report.result_of(id);
  return result != nullptr && result->outcome == ProbeResult::Outcome::kAnswered ? result : nullptr;
}

/// A feature on which the answer to the question `id` bears, and `why` before it.
Feature asked(const Report& report, const char* name, std::string choice, std::string why,
              const char* id) {
  Feature feature{name, std::move(choice), std::move(why), id};
  const ProbeResult* const result = report.result_of(id);
  if (result == nullptr) {
    feature.answer = " was not asked";
  } else if (result->outcome == ProbeResult::Outcome::kAnswered) {
    feature.answer = ": " + result->answer;
  } else {
    feature.answer = std::string(" ") + name_of(result->outcome) +
                     (result->reason.empty() ? "" : ": " + result->reason);
  }
  return feature;
}

Feature evicted_addresses(const Report& report) {
  return asked(report, "evicted_addresses",
               "unmapped: an access that superpipe did not foresee fails loudly",
               "this version has nothing else; backing them with host memory needs host pages. ",
               "H4");
}

Feature write_back(const Report& report) {
  return asked(
      report, "write_back",
      "digest: what a kernel may have written is copied back only if it has changed",
      "the first digest of a run is checked against the host's; without digests all of it is "
      "copied back. What one costs: ",
      "H9");
}

Feature copies(const Report& report) {
  return asked(
      report, "copies", "one call a piece, on a stream of their own each way",
      std::string("batches of several pieces in one call are not in this version; the driver ") +
          (report.driver.batch_copies ? "has" : "does not have") + " cuMemcpyBatchAsync. ",
      "H1");
}

Feature handles(const Report& report) {
  return asked(
      report, "handle_sizes",
      "one physical handle a piece: buffers move in pieces of 2 to 32 MiB, by the budget; whole, "
      "rounded up to 2 MiB, under policies that move layers",
      "costs are per handle. ", "H2");
}

Feature unmapping(const Report& report) {
  return asked(report, "unmapping",
               "behind the events of a buffer's last use, while other work runs on", "", "H3");
}

Feature windows(const Report& report) {
  return asked(report, "windows",
               "every page is mapped twice: at its piece's address while that is resident, and for "
               "copies always",
               "", "H8");
}

Feature lookup(const Report& report) {
  const ProbeResult* const identity = answered(report, "H5");
  const bool by_name = identity != nullptr && identity->holds && !*identity->holds;
  return asked(report, "function_lookup",
               by_name ? "by pointer identity; functions where it does not hold by name and version"
                       : "by pointer identity of what the driver returns",
               "", "H5");
}

Feature tensor_maps(const Report& report) {
  return asked(report, "tensor_maps",
               "a launch uses the buffer that its map describes, known by the bytes of the map", "",
               "H7");
}

Feature read_only(const Report& report) {
  return asked(report, "read_only_mappings", "not used: every mapping is writable", "", "H6");
}

Feature other_devices(const Report& report) {
  return asked(report, "other_devices",
               "buffers are opened to the devices that the program lets in", "", "H19");
}

Feature host_memory(const Report& report) {
  const auto usable = report.host.memory.usable();
  std::string why = "usable: " + (usable ? format_bytes(*usable) : std::string("unknown"));
  const bool device_known = !report.driver.devices.empty();
  if (report.host.numa_nodes.size() > 1) {
    why +=
        "; placement on a NUMA node is not in this version: memory lies where it is first "
        "touched";
    if (device_known && report.driver.devices.front().host_numa_node >= 0) {
      why += ". Node " + std::to_string(report.driver.devices.front().host_numa_node) +
             " is the device's: numactl --cpunodebind and --membind put a program there";
    }
  }
  return {"host_memory",
          "anonymous memory of exact sizes, pinned by registering it with the driver", why};
}

}  // namespace

std::vector<Feature> features_of(const Report& report) {
  return {evicted_addresses(report),
          write_back(report),
          copies(report),
          handles(report),
          unmapping(report),
          windows(report),
          host_memory(report),
          lookup(report),
          tensor_maps(report),
          read_only(report),
          other_devices(report),
          {"allocator", "async: frameworks are told to allocate each tensor by itself",
           report.driver.devices.empty() || report.driver.devices.front().memory_pools
               ? "the device has memory pools"
               : "the device has no memory pools: use --allocator native"},
          asked(report, "launches", "every launch's parameters are searched for managed addresses",
                "", "H10"),
          asked(report, "runtime", "NVIDIA's runtime library is left as it is", "", "H0")};
}

std::string Feature::reason(ProbeCalled called) const {
  return probe.empty() ? why : why + name_of_probe(probe, called) + answer;
}

}  // namespace superpipe::cli
