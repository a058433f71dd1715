#include "residency/host/host_memory.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <fstream>
#include <new>
#include <sstream>
#include <string_view>
#include <utility>

#include "residency/tuning.h"

namespace superpipe {
namespace {

/// The number that a file of one line holds; nullopt if there is none ("max", or no such file).
std::optional<Bytes> bytes_in(const std::string& path) {
  std::ifstream file(path);
  std::uint64_t count = 0;
  if (!(file >> count)) return std::nullopt;
  // Version 1 writes "no limit" as the largest multiple of a page below 2^63.
  constexpr std::uint64_t kNoLimit = std::uint64_t{1} << 60;
  if (count >= kNoLimit) return std::nullopt;
  return Bytes{count};
}

/// Where one version of control groups says what a group may use, and what it uses, and what of
/// that caches files.
struct CgroupFiles {
  int version;
  std::string mount;
  const char* limit;
  const char* used;
  std::array<std::string_view, 2> caches;  ///< in memory.stat

  /// What the group of `folder` uses without its caches of files: a model that was read from a file
  /// is in them, and MemAvailable counts the host's as available, too.
  [[nodiscard]] std::optional<Bytes> used_without_caches(const std::string& folder) const {
    const auto all = bytes_in(folder + used);
    if (!all) return std::nullopt;
    Bytes cached;
    std::ifstream file(folder + "memory.stat");
    std::string name;
    std::uint64_t count = 0;
    while (file >> name >> count) {
      if (std::ranges::find(caches, name) != caches.end()) cached += Bytes{count};
    }
    return saturating_subtract(*all, cached);
  }
};

/// Takes the limits of `group` and of every group above it into account: each binds all below it.
void read_hierarchy(HostMemory& memory, const CgroupFiles& files, std::string group) {
  for (;;) {
    const std::string folder = files.mount + (group == "/" ? "" : group) + "/";
    const auto limit = bytes_in(folder + files.limit);
    if (limit && (!memory.cgroup || *limit < memory.cgroup->limit)) {
      struct stat status {};
      const std::uint64_t id = ::stat(folder.c_str(), &status) == 0 ? status.st_ino : 0;
      memory.cgroup = CgroupLimit{*limit, files.used_without_caches(folder), files.version, id};
    }
    const std::size_t slash = group.rfind('/');
    if (group == "/" || slash == std::string::npos) return;
    group = slash == 0 ? "/" : group.substr(0, slash);
  }
}

/// What host stores may take of `usable` bytes.
Bytes without_the_programs_part(Bytes usable) {
  return usable - Bytes{usable.count() / tuning::kHostPartOfProgram};
}

void read_meminfo(HostMemory& memory, const std::string& path) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    std::uint64_t kibibytes = 0;
    if (!(words >> name >> kibibytes)) continue;
    if (name == "MemTotal:") memory.total = Bytes{kibibytes << 10};
    if (name == "MemAvailable:") memory.available = Bytes{kibibytes << 10};
  }
}

/// Each line of /proc/self/cgroup is "id:controllers:group"; version 2's has no controllers.
void read_cgroups(HostMemory& memory, const std::string& root) {
  const CgroupFiles version_2{
      2, root + "/sys/fs/cgroup", "memory.max", "memory.current", {"inactive_file", "active_file"}};
  const CgroupFiles version_1{1,
                              root + "/sys/fs/cgroup/memory",
                              "memory.limit_in_bytes",
                              "memory.usage_in_bytes",
                              {"total_inactive_file", "total_active_file"}};
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    if (controllers.empty()) {
      read_hierarchy(memory, version_2, group);
    } else if (("," + controllers + ",").find(",memory,") != std::string::npos) {
      read_hierarchy(memory, version_1, group);
    }
  }
}

}  // namespace

Bytes CgroupLimit::left() const { return saturating_subtract(limit, used.value_or(Bytes{})); }

std::optional<Bytes> HostMemory::usable() const {
  if (!cgroup) return available;
  const Bytes left = cgroup->left();
  return available ? std::min(*available, left) : left;
}

HostMemory read_host_memory(const std::string& root) {
  HostMemory memory;
  read_meminfo(memory, root + "/proc/meminfo");
  read_cgroups(memory, root);
  return memory;
}

HostMemoryWatch::HostMemoryWatch(std::string root, std::function<Clock::time_point()> now)
    : root_(std::move(root)), now_(std::move(now)), first_(read_host_memory(root_)) {}

std::optional<HostMemory> HostMemoryWatch::look(Bytes size) noexcept {
  if (!first_.available) return std::nullopt;
  const std::lock_guard lock(mutex_);
  const Clock::time_point begin = now_();
  if (begin < paused_until_ && size >= in_vain_) return std::nullopt;
  std::optional<HostMemory> memory;
  try {
    memory = read_host_memory(root_);
  } catch (const std::bad_alloc&) {
    // Then nothing is known.
  }
  took_ = now_() - begin;
  if (memory && knows_as_much(*memory)) return memory;
  pause(Bytes{});
  return std::nullopt;
}

bool HostMemoryWatch::knows_as_much(const HostMemory& memory) const {
  if (!memory.available || memory.cgroup.has_value() != first_.cgroup.has_value()) return false;
  return !memory.cgroup || (memory.cgroup->id == first_.cgroup->id && memory.cgroup->used);
}

void HostMemoryWatch::note_in_vain(Bytes size) noexcept {
  const std::lock_guard lock(mutex_);
  pause(size);
}

// For a while, look() says nothing to callers that need `size` bytes or more.
void HostMemoryWatch::pause(Bytes size) {
  const Clock::time_point now = now_();
  in_vain_ = now < paused_until_ ? std::min(in_vain_, size) : size;
  paused_until_ = now + std::max<Clock::duration>(tuning::kHostLookPauseParts * took_, kLeastPause);
}

Bytes host_store_limit(const HostMemory& memory, const std::optional<SizeSpec>& allowed,
                       Bytes own) {
  const std::optional<Bytes> usable = memory.usable();
  if (!usable && !allowed) return Bytes{};
  const Bytes most = usable ? without_the_programs_part(own + *usable) : HostCaps::kNone;
  return allowed ? std::min(most, allowed->resolve(memory.total.value_or(Bytes{}))) : most;
}

HostCaps host_caps(const HostMemory& memory, Bytes own) {
  HostCaps caps;
  if (memory.available) caps.host = without_the_programs_part(own + *memory.available);
  if (memory.cgroup && memory.cgroup->id != 0) {
    caps.group = memory.cgroup->id;
    caps.in_group = without_the_programs_part(own + memory.cgroup->left());
  }
  return caps;
}

}  // namespace superpipe
