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
/// may be empty. Flags win over variables, and void some (variables_replaced_by). With --simulate
/// the settings that have a value for it get that value, unless the user gave one: fresh memory of
/// simgpu reads as zero, so reused buffers must too. Entries of an LD_PRELOAD that is set already
/// stay, behind ours. A trace that a flag asks for is that of a new run, in a file that is the same
/// wherever the program's processes run; this process is its owner, which the program becomes. With
/// SUPERPIPE_OFF=1 nothing of superpipe is preloaded: simgpu still is. The folder in which the
/// driver's name without a version is superpipe goes in front of LD_LIBRARY_PATH, as far as there
/// is one. simgpu's other libraries are found through LD_AUDIT, by whatever name and path the
/// program asks for NVIDIA's; XLA does not measure which of its ways to compute is the fastest.
[[nodiscard]] std::vector<EnvironmentChange> environment_changes(const RunOptions& options,
                                                                 const Installation& parts,
                                                                 const std::string& program);

/// What the loader finds the driver by.
inline constexpr char kDriverLibrary[] = "libcuda.so.1";

/// The driver's library that the user named (SUPERPIPE_DRIVER); nullopt: the loader finds it.
[[nodiscard]] std::optional<std::string> named_driver();

/// Whether the user switched superpipe off (SUPERPIPE_OFF=1).
[[nodiscard]] bool switched_off();

/// Puts `changes` into this process's environment. Not thread-safe (setenv).
void apply(const std::vector<EnvironmentChange>& changes);

}  // namespace superpipe::cli
