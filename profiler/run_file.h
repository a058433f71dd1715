// Files that several processes of one run may write, each once: none replaces that of another.
//
// What lay at the path when the run began is replaced, and what another process of the run has
// written since is not. The process that begins the run notes in an environment variable, for those
// that it starts, which file that was: by device, inode and times, so that no clock is read and no
// file needs a mark.
#pragma once

#include <optional>
#include <string>

namespace superpipe {

/// The variables for the files that the library writes at exit.
inline constexpr const char* kFormerStatisticsVariable = "SUPERPIPE_FORMER_STATS";
inline constexpr const char* kFormerTimelineVariable = "SUPERPIPE_FORMER_TIMELINE";

/// Notes in `variable` which file lies at `path`, or that none does, unless a process that started
/// this one has done so for the same path. Changes the environment: not thread-safe.
void note_former_file(const char* variable, const std::string& path);

/// What a process does where another one of its run has written the file before it.
enum class Claim {
  kFirst,  ///< appends its id to the name: the first to write has it
  /// Has the name, for it began the run; the other's file is renamed to "stats.json.other", or
  /// "stats.json.other.2" and so on.
  kAlways,
};

/// Writes `text` as write_file_atomically() does: to `path`, or to that name with the process's id
/// behind it ("stats.json.4711") where another process of the run has written `path` since
/// note_former_file(variable, path) and `claim` is kFirst.
///
/// Processes that write at the same moment wait for each other, a second at most; where the file
/// system has no locks, one of two files may be lost.
/// @return nullopt, or what went wrong.
[[nodiscard]] std::optional<std::string> write_run_file(const char* variable,
                                                        const std::string& path,
                                                        const std::string& text,
                                                        Claim claim = Claim::kFirst);

}  // namespace superpipe
