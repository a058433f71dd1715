// How much host memory the host store may take.
#pragma once

#include <optional>
#include <string>

#include "policy/budget.h"
#include "policy/units.h"

namespace superpipe {

/// What the machine says about host memory; nullopt where it says nothing.
struct HostMemory {
  Bytes total;                          ///< MemTotal
  Bytes available;                      ///< MemAvailable
  std::optional<Bytes> cgroup_limit;    ///< the least limit of the process's cgroups
  std::optional<Bytes> cgroup_current;  ///< what the limited cgroup uses now
};

/// Reads /proc/meminfo and the cgroup files under `root` (normally ""): version 2 (memory.max of
/// the process's group and its parents), else version 1 (memory.limit_in_bytes).
[[nodiscard]] HostMemory read_host_memory(const std::string& root);

/// The cap of the host store: the least of what the user allows (a percentage is of MemTotal), what
/// is available, and what the cgroup leaves, less a sixteenth of the last two as headroom for the
/// program itself. Pure.
[[nodiscard]] Bytes host_store_limit(const HostMemory& memory,
                                     const std::optional<SizeSpec>& allowed);

}  // namespace superpipe
