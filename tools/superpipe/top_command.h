// `superpipe top`: what all running programs do, again and again.
#pragma once

#include <optional>
#include <string>

namespace superpipe::cli {

/// What stands on the command line; empty strings: not given.
struct TopOptions {
  std::string pid;         ///< the process; none: all of this user
  std::string interval;    ///< seconds between looks
  std::string prometheus;  ///< the file for metrics
  bool once = false;
  bool json = false;
};

/// What is wrong with the words, in one line that says what is allowed; nullopt if nothing is.
[[nodiscard]] std::optional<std::string> problem_with(const TopOptions& options);

/// Looks at processes through their live segments (profiler/live_process.h): on a terminal until
/// its user quits, else until a signal ends it, or, with a process, until that has ended. Writes to
/// stdout what was asked for. Calls no driver. REQUIRES: !problem_with(options). `folder`: where
/// the segments lie.
/// @return kSuccess; kProblemFound if the process cannot be looked at; kBadUsage if a file cannot
/// be written.
[[nodiscard]] int top_command(const TopOptions& options, const std::string& folder);

}  // namespace superpipe::cli
