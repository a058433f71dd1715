#include "tools/superpipe/host_limits.h"

#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <system_error>
#include <utility>

namespace superpipe::cli {
namespace {

std::optional<std::uint64_t> number_in(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::uint64_t value = 0;
  if (!(in >> value)) return std::nullopt;  // "max", or no such file
  // Version 1 writes "no limit" as a number close to the largest there is.
  if (value > (std::uint64_t{1} << 60)) return std::nullopt;
  return value;
}

void tighten(HostLimits& limits, const std::filesystem::path& folder, int version,
             const char* limit_file, const char* used_file) {
  const auto limit = number_in(folder / limit_file);
  if (!limit || (limits.cgroup_limit && *limits.cgroup_limit <= *limit)) return;
  limits.cgroup_limit = limit;
  limits.cgroup_used = number_in(folder / used_file);
  limits.cgroup_version = version;
}

// A limit binds everything below it: look at every cgroup from ours up to the root.
void read_cgroups(HostLimits& limits) {
  std::ifstream in("/proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool unified = controllers.empty();
    if (!unified && controllers.find("memory") == std::string::npos) continue;
    const std::filesystem::path root = unified ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";
    std::filesystem::path own = line.substr(second + 1);
    while (true) {
      const auto folder = root / own.relative_path();
      if (unified) {
        tighten(limits, folder, 2, "memory.max", "memory.current");
      } else {
        tighten(limits, folder, 1, "memory.limit_in_bytes", "memory.usage_in_bytes");
      }
      if (!own.has_relative_path()) break;
      own = own.parent_path();
    }
  }
}

std::string line_in(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

void read_numa_nodes(HostLimits& limits) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/sys/devices/system/node", error)) {
    const std::string name = entry.path().filename().string();
    if (name.rfind("node", 0) != 0 ||
        name.find_first_not_of("0123456789", 4) != std::string::npos || name.size() == 4 ||
        name.size() > 9) {
      continue;
    }
    NumaNode node;
    node.id = std::stoi(name.substr(4));
    node.cpus = line_in(entry.path() / "cpulist");
    std::ifstream meminfo(entry.path() / "meminfo");
    for (std::string line; std::getline(meminfo, line);) {  // "Node 0 MemTotal:  1234 kB"
      std::istringstream fields(line);
      std::string word, field;
      int id = 0;
      std::uint64_t kibibytes = 0;
      if (!(fields >> word >> id >> field >> kibibytes)) continue;
      if (field == "MemTotal:") node.total = kibibytes << 10;
      if (field == "MemFree:") node.available = kibibytes << 10;
    }
    limits.numa_nodes.push_back(std::move(node));
  }
  std::sort(limits.numa_nodes.begin(), limits.numa_nodes.end(),
            [](const NumaNode& a, const NumaNode& b) { return a.id < b.id; });
}

}  // namespace

int numa_node_of_pci(const std::string& address) {
  if (address.empty() || address.find('/') != std::string::npos) return -1;
  std::ifstream in("/sys/bus/pci/devices/" + address + "/numa_node");
  int node = -1;
  return in >> node ? node : -1;
}

std::string kernel_module_version() { return line_in("/proc/driver/nvidia/version"); }

std::optional<std::uint64_t> HostLimits::usable() const {
  if (!cgroup_limit) return available;
  const std::uint64_t used = cgroup_used.value_or(0);
  const std::uint64_t left = *cgroup_limit > used ? *cgroup_limit - used : 0;
  return available ? std::min(*available, left) : left;
}

HostLimits read_host_limits() {
  HostLimits limits;
  std::ifstream meminfo("/proc/meminfo");
  for (std::string line; std::getline(meminfo, line);) {
    std::istringstream fields(line);
    std::string name;
    std::uint64_t kibibytes = 0;
    if (!(fields >> name >> kibibytes)) continue;
    if (name == "MemTotal:") limits.total = kibibytes << 10;
    if (name == "MemAvailable:") limits.available = kibibytes << 10;
  }
  read_cgroups(limits);
  read_numa_nodes(limits);
  rlimit locked{};
  if (getrlimit(RLIMIT_MEMLOCK, &locked) == 0 && locked.rlim_cur != RLIM_INFINITY) {
    limits.locked = locked.rlim_cur;
  }
  return limits;
}

}  // namespace superpipe::cli
