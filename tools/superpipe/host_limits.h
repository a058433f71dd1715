// What this machine and this process may use of host memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace superpipe::cli {

/// One NUMA node of the host.
struct NumaNode {
  int id = 0;
  std::optional<std::uint64_t> total, available;  ///< bytes
  std::string cpus;                               ///< as Linux lists them: "0-15,32-47"
};

/// In bytes; nullopt where there is no limit or it cannot be read.
struct HostLimits {
  std::optional<std::uint64_t> total;         ///< MemTotal
  std::optional<std::uint64_t> available;     ///< MemAvailable
  std::optional<std::uint64_t> cgroup_limit;  ///< the tightest of the cgroups this process is in
  std::optional<std::uint64_t> cgroup_used;   ///< by the cgroup with that limit
  std::optional<std::uint64_t> locked;        ///< RLIMIT_MEMLOCK (ulimit -l)
  int cgroup_version = 0;                     ///< of the group with that limit; 0: no limit
  std::vector<NumaNode> numa_nodes;           ///< empty if the system does not tell

  /// What a host store can take at most now: what is available, within the cgroup's limit.
  [[nodiscard]] std::optional<std::uint64_t> usable() const;
};

/// The NUMA node that a PCI device is attached to, by its address ("0000:3b:00.0"); -1 if the
/// system has one node only or does not tell.
[[nodiscard]] int numa_node_of_pci(const std::string& address);

/// NVIDIA's kernel module in its own words; empty if none is loaded.
[[nodiscard]] std::string kernel_module_version();

/// Reads /proc/meminfo, the cgroup files (version 2, and 1's memory controller) and the resource
/// limit.
[[nodiscard]] HostLimits read_host_limits();

}  // namespace superpipe::cli
