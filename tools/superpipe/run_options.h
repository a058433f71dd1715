// What `superpipe run` was asked for, and whether it makes sense: decided before anything is
// started.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace superpipe::cli {

/// The flags as typed; empty means not given. Each mirrors one variable of the library.
struct RunOptions {
  std::string k, k_prime, gpu_mem, policy, plan, trace;
  std::string host_mem, min_buffer, allocator, writeback, overflow, wait_ms, fill, evicted;
  std::string report_mem, log, stats, timeline;
  bool strict = false;
  bool simulate = false;
  std::vector<std::string> command;  ///< what stands after "--"
};

/// A flag and the variable it stands for.
struct MirroredFlag {
  const char* flag;
  const char* variable;
  std::string RunOptions::*value;
};

/// Every flag that is handed to the library as a variable.
[[nodiscard]] const std::vector<MirroredFlag>& mirrored_flags();

/// What is wrong with `options`, as one line that names the flag, its value and what is allowed;
/// nullopt if nothing is. Reads the environment: a flag may complete what a variable began
/// (SUPERPIPE_K=4 and --policy naive).
[[nodiscard]] std::optional<std::string> problem_with(const RunOptions& options);

}  // namespace superpipe::cli
