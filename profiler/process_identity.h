// What names a process and never another one, for processes that meet in shared memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace superpipe {

/// When process `pid` of this namespace started, in clock ticks since the machine's start: together
/// with the id this names the process and never another one. An exec changes neither.
///
/// @return nullopt if there is no such process, if it has ended and no process has waited for it,
/// or if /proc is not mounted. Reads one small file, which takes about 10 us; any thread. Throws
/// std::bad_alloc.
[[nodiscard]] std::optional<std::uint64_t> start_time_of(int pid);

/// The inode of the pid namespace within which this process's ids mean something; 0: not known.
/// Any thread.
[[nodiscard]] std::uint64_t own_pid_namespace();

/// What names this start of this machine, of the text in `file` that Linux has for that, as eight
/// hexadecimal digits; "0": there is no such file, or something else stands there.
[[nodiscard]] std::string boot_in(const std::string& file);

/// The host and pid namespace in which a process id and a start time name one process, as a part of
/// a file's name:
/// boot_in() of this machine, "-" and own_pid_namespace(). The first pid namespace has the same
/// inode on every machine. Reads one small file; any thread. Throws std::bad_alloc.
[[nodiscard]] std::string own_processes();

}  // namespace superpipe
