// What names a process for good, for those who meet in shared memory.
#pragma once

#include <cstdint>
#include <optional>

namespace superpipe {

/// When process `pid` of this namespace started, in clock ticks since the machine's start: together
/// with the id this names the process for good. An exec changes neither.
///
/// @return nullopt if there is no such process, if it has ended and nobody has waited for it, or if
/// /proc is not mounted. Reads one small file, which takes about 10 us; any thread. Throws
/// std::bad_alloc.
[[nodiscard]] std::optional<std::uint64_t> start_time_of(int pid);

/// The inode of the pid namespace within which this process's ids mean something; 0: not known.
/// Any thread.
[[nodiscard]] std::uint64_t own_pid_namespace();

}  // namespace superpipe
