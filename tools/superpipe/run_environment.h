// The environment that puts superpipe, and with --simulate simgpu, in front of a program.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/superpipe/installation.h"
#include "tools/superpipe/run_options.h"

namespace superpipe::cli {

/// One change to the environment; no value: the variable is removed.
struct EnvironmentChange {
  std::string name;
  std::optional<std::string> value;
};

/// What `superpipe run` changes in the environment before it executes the command.
///
/// `program`: where the command's executable lies (its simgpu kernels are looked for beside it),
/// may be empty. Flags win over variables; of the two ways to size the device share, k and bytes,
/// only the one that was given as a flag remains. Entries of an LD_PRELOAD that is set already
/// stay, behind ours. With SUPERPIPE_OFF=1 nothing of superpipe is preloaded: simgpu still is.
[[nodiscard]] std::vector<EnvironmentChange> environment_changes(const RunOptions& options,
                                                                 const Installation& parts,
                                                                 const std::string& program);

/// Whether the user switched superpipe off (SUPERPIPE_OFF=1).
[[nodiscard]] bool switched_off();

/// Puts `changes` into this process's environment. Not thread-safe (setenv).
void apply(const std::vector<EnvironmentChange>& changes);

}  // namespace superpipe::cli
