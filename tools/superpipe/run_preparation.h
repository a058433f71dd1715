// Whether a command can be started under superpipe here.
#pragma once

#include <string>
#include <string_view>

#include "tools/superpipe/exit_code.h"
#include "tools/superpipe/installation.h"
#include "tools/superpipe/run_options.h"

namespace superpipe::cli {

/// What a run needs, or why it cannot be.
struct RunPreparation {
  int code = kSuccess;    ///< kCannotRun, kNotExecutable, kCommandNotFound
  std::string problem{};  ///< one line that says what to do; empty if there is none
  std::string program{};  ///< where the command's executable lies
  Installation parts{};

  [[nodiscard]] bool ok() const { return code == kSuccess; }
};

/// Looks for the command, superpipe's parts and a driver, which it opens in a process of its own
/// for at most 20 s, and makes the folder with the driver's name without a version. REQUIRES:
/// !problem_with(options), and a command.
[[nodiscard]] RunPreparation prepare_run(const RunOptions& options);

/// The same for a program that this command does not start: there is no command to be found, and
/// the driver is not asked, since it may be another machine's. Looks for `parts` alone, and makes
/// no link to them: what is printed may be kept for longer than a link stays, and another user may
/// then make one in its place.
/// @return without `program`; the problem's code is kCannotRun.
[[nodiscard]] RunPreparation prepare_environment(const RunOptions& options,
                                                 const Installation& parts);

/// Why the loader will not load superpipe's library into the executable at `program`; empty where
/// nothing is known that stands against it, as of scripts.
[[nodiscard]] std::string reason_against_preloading(const std::string& program);

/// Why simgpu is not to run with the glibc of version `glibc` ("2.31"): it is older than `oldest`.
/// One line that says what to do; empty where it is not, and where `oldest` is empty (no limit).
[[nodiscard]] std::string reason_against_simulating(std::string_view glibc,
                                                    std::string_view oldest);

/// The same of this machine's glibc and the oldest that this build's simgpu runs with.
[[nodiscard]] std::string reason_against_simulating_here();

/// What to say where the installation in `prefix` cannot be named, and `shared` takes no link to
/// it.
[[nodiscard]] std::string reason_against_place(const std::string& prefix,
                                               const std::string& shared);

}  // namespace superpipe::cli
