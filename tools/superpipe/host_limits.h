// What this machine and this process may use of host memory.
#pragma once

#include <cstdint>
#include <optional>

namespace superpipe::cli {

/// In bytes; nullopt where there is no limit or it cannot be read.
struct HostLimits {
  std::optional<std::uint64_t> total;         ///< MemTotal
  std::optional<std::uint64_t> available;     ///< MemAvailable
  std::optional<std::uint64_t> cgroup_limit;  ///< the tightest of the cgroups this process is in
  std::optional<std::uint64_t> cgroup_used;   ///< by the cgroup with that limit
  std::optional<std::uint64_t> locked;        ///< RLIMIT_MEMLOCK (ulimit -l)

  /// What a host store can take at most now: what is available, within the cgroup's limit.
  [[nodiscard]] std::optional<std::uint64_t> usable() const;
};

/// Reads /proc/meminfo, the cgroup files (version 2, and 1's memory controller) and the resource
/// limit.
[[nodiscard]] HostLimits read_host_limits();

}  // namespace superpipe::cli
