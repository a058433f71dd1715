#include "residency/host_memory.h"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <sstream>

namespace superpipe {
namespace {

constexpr std::uint64_t kHeadroomDivisor = 16;

/// The number in a one-line file; nullopt if there is none ("max") or it stands for no limit.
std::optional<Bytes> read_bytes(const std::string& path) {
  std::ifstream file(path);
  std::uint64_t count = 0;
  // Version 1 writes "no limit" as the largest multiple of a page below 2^63.
  constexpr std::uint64_t kNoLimit = std::uint64_t{1} << 62;
  if (!(file >> count) || count >= kNoLimit) return std::nullopt;
  return Bytes{count};
}

void take_least(HostMemory& memory, const std::string& limit_file,
                const std::string& current_file) {
  const auto limit = read_bytes(limit_file);
  if (!limit) return;
  if (memory.cgroup_limit && *memory.cgroup_limit <= *limit) return;
  memory.cgroup_limit = limit;
  memory.cgroup_current = read_bytes(current_file);
}

/// Reads the limits of `group` and of each group above it.
void read_hierarchy(HostMemory& memory, const std::string& mount, std::string group,
                    const char* limit_name, const char* current_name) {
  for (;;) {
    const std::string folder = mount + (group == "/" ? "" : group);
    take_least(memory, folder + "/" + limit_name, folder + "/" + current_name);
    const std::size_t slash = group.rfind('/');
    if (group == "/" || slash == std::string::npos) return;
    group = slash == 0 ? "/" : group.substr(0, slash);
  }
}

}  // namespace

HostMemory read_host_memory(const std::string& root) {
  HostMemory memory;
  std::ifstream info(root + "/proc/meminfo");
  std::string line;
  while (std::getline(info, line)) {
    std::istringstream words(line);
    std::string name;
    std::uint64_t kibibytes = 0;
    if (!(words >> name >> kibibytes)) continue;
    if (name == "MemTotal:") memory.total = Bytes{kibibytes << 10};
    if (name == "MemAvailable:") memory.available = Bytes{kibibytes << 10};
  }
  std::ifstream groups(root + "/proc/self/cgroup");
  while (std::getline(groups, line)) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    if (controllers.empty()) {
      read_hierarchy(memory, root + "/sys/fs/cgroup", group, "memory.max", "memory.current");
    } else if (("," + controllers + ",").find(",memory,") != std::string::npos) {
      read_hierarchy(memory, root + "/sys/fs/cgroup/memory", group, "memory.limit_in_bytes",
                     "memory.usage_in_bytes");
    }
  }
  return memory;
}

Bytes host_store_limit(const HostMemory& memory, const std::optional<SizeSpec>& allowed) {
  Bytes limit = memory.available;
  if (memory.cgroup_limit) {
    limit = std::min(
        limit, saturating_subtract(*memory.cgroup_limit, memory.cgroup_current.value_or(Bytes{})));
  }
  limit -= Bytes{limit.count() / kHeadroomDivisor};
  if (allowed) limit = std::min(limit, allowed->resolve(memory.total));
  return limit;
}

}  // namespace superpipe
