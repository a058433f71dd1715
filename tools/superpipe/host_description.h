// What the doctor tells of the host.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "residency/host/host_memory.h"

namespace superpipe::cli {

/// One NUMA node of the host.
struct NumaNode {
  int id = 0;
  std::optional<std::uint64_t> total, available;  ///< bytes
  std::string cpus;                               ///< as Linux lists them: "0-15,32-47"
};

/// The host as far as it matters to superpipe.
struct HostDescription {
  HostMemory memory;
  std::optional<Bytes> lockable;     ///< RLIMIT_MEMLOCK (ulimit -l); nullopt: unlimited
  std::vector<NumaNode> numa_nodes;  ///< by id; empty if the system does not tell
};

/// Asks this machine. Opens a few small files; any thread.
[[nodiscard]] HostDescription describe_host();

/// The NUMA node that a PCI device is attached to, by its address ("0000:3b:00.0"); -1 if the
/// system has one node only or does not tell.
[[nodiscard]] int numa_node_of_pci(const std::string& address);

/// NVIDIA's kernel module in its own words; empty if none is loaded.
[[nodiscard]] std::string kernel_module_version();

}  // namespace superpipe::cli
