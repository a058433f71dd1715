#include "tools/superpipe/probes/memory_counters.h"

#include <fstream>
#include <set>
#include <sstream>

namespace superpipe::cli {
namespace {

using Counters = std::map<std::string, std::int64_t>;

// Lines such as "VmRSS:      1234 kB".
void read_kibibytes(const std::string& file, const std::set<std::string>& wanted,
                    Counters& counters) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos || wanted.count(line.substr(0, colon)) == 0) continue;
    std::int64_t kibibytes = 0;
    if (std::istringstream(line.substr(colon + 1)) >> kibibytes) {
      counters[line.substr(0, colon)] = kibibytes << 10;
    }
  }
}

// Whether `list`, words between commas, has `word`.
bool lists(const std::string& list, const std::string& word) {
  return ("," + list + ",").find("," + word + ",") != std::string::npos;
}

void read_control_group(const std::string& root, Counters& counters) {
  std::ifstream in(root + "/proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {  // "0::/a" or "4:memory:/a"
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    std::string folder = root + "/sys/fs/cgroup";
    std::string file = "/memory.current";
    if (lists(controllers, "memory")) {
      folder += "/memory";
      file = "/memory.usage_in_bytes";
    } else if (!controllers.empty()) {
      continue;
    }
    // In a container the group's own folder may be the topmost that is to be seen.
    for (const std::string& place : {group + file, file}) {
      std::int64_t bytes = 0;
      if (std::ifstream(folder + place) >> bytes) {
        counters["cgroup_current"] = bytes;
        return;
      }
    }
  }
}

}  // namespace

Counters read_memory_counters(const std::string& root) {
  Counters counters;
  read_kibibytes(root + "/proc/self/status",
                 {"VmRSS", "RssAnon", "RssFile", "RssShmem", "VmLck", "VmPin"}, counters);
  read_kibibytes(root + "/proc/meminfo", {"MemAvailable", "Unevictable"}, counters);
  read_control_group(root, counters);
  return counters;
}

}  // namespace superpipe::cli
