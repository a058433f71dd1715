// `superpipe env`: prints what puts a program under superpipe that the command does not start.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/superpipe/run_options.h"

namespace superpipe::cli {

/// What stands on the command line; empty strings: not given.
struct EnvOptions {
  RunOptions run;       ///< without a command
  std::string format;   ///< one of env_formats(); default sh
  std::string runtime;  ///< what `superpipe copy-runtime` was given, as the program sees it
};

/// What --format takes.
[[nodiscard]] const std::vector<std::string>& env_formats();

/// Whether the variables are for programs that this environment is not handed down to, and which
/// may be another machine's: containers.
[[nodiscard]] bool is_for_container(const EnvOptions& options);

/// Removes what environment_changes() and problem_with() read of this process's environment, since
/// a container does not have it. Not thread-safe (unsetenv).
void forget_environment();

/// What is wrong with the words, in one line that says what is allowed; nullopt if nothing is.
[[nodiscard]] std::optional<std::string> problem_with(const EnvOptions& options);

/// Prints on stdout the variables that `superpipe run` would set, but SUPERPIPE_SUMMARY: with it
/// each command of a shell would say at its end that it is no CUDA program. Starts nothing and
/// calls no driver; looks for superpipe's parts unless is_for_container().
/// REQUIRES: !problem_with(options).
/// @return kSuccess; after one line on stderr, kCannotRun where parts are missing, and kBadUsage
/// where stdout cannot be written.
[[nodiscard]] int env_command(const EnvOptions& options);

}  // namespace superpipe::cli
