// Host memory as the system counts it: of this process, of its control group, of the machine.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace superpipe::cli {

/// Bytes by counter: VmRSS, RssAnon, RssFile, RssShmem, VmLck and VmPin of this process,
/// `cgroup_current` of its control group (version 2, or version 1's memory controller), and
/// MemAvailable and Unevictable of the machine. A counter that cannot be read is not there.
///
/// `root`: a folder in front of every path, for tests; "" for the machine itself.
[[nodiscard]] std::map<std::string, std::int64_t> read_memory_counters(const std::string& root);

}  // namespace superpipe::cli
