#include "tools/superpipe/host_description.h"

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

std::string line_in(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

// "node3" names a node of that folder; "has_cpu" and "possible" lie there too.
bool names_a_node(const std::string& name) {
  constexpr std::size_t kPrefixLength = 4, kLongest = 9;
  return name.rfind("node", 0) == 0 && name.size() > kPrefixLength && name.size() <= kLongest &&
         name.find_first_not_of("0123456789", kPrefixLength) == std::string::npos;
}

std::vector<NumaNode> read_numa_nodes() {
  std::vector<NumaNode> nodes;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/sys/devices/system/node", error)) {
    const std::string name = entry.path().filename().string();
    if (!names_a_node(name)) continue;
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
    nodes.push_back(std::move(node));
  }
  std::sort(nodes.begin(), nodes.end(),
            [](const NumaNode& a, const NumaNode& b) { return a.id < b.id; });
  return nodes;
}

}  // namespace

HostDescription describe_host() {
  HostDescription host;
  host.memory = read_host_memory("");
  host.numa_nodes = read_numa_nodes();
  rlimit locked{};
  if (getrlimit(RLIMIT_MEMLOCK, &locked) == 0 && locked.rlim_cur != RLIM_INFINITY) {
    host.lockable = Bytes{locked.rlim_cur};
  }
  return host;
}

int numa_node_of_pci(const std::string& address) {
  if (address.empty() || address.find('/') != std::string::npos) return -1;
  std::ifstream in("/sys/bus/pci/devices/" + address + "/numa_node");
  int node = -1;
  return in >> node ? node : -1;
}

std::string kernel_module_version() { return line_in("/proc/driver/nvidia/version"); }

}  // namespace superpipe::cli
