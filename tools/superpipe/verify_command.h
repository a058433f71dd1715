// `superpipe verify`: runs a program without superpipe and with it, and compares what it copies out
// of the device.
#pragma once

#include <optional>
#include <string>

#include "tools/superpipe/run_options.h"

namespace superpipe::cli {

/// What stands on the command line; empty: not given.
struct VerifyOptions {
  RunOptions run;       ///< the flags of superpipe run, and the command
  std::string budgets;  ///< SIZE,SIZE,...: a run with each as its --gpu-mem
  std::string output;   ///< the name of an OutputRule
  bool json = false;    ///< one JSON object instead of text
};

/// What is wrong with the flags, in one line that says what is allowed; nullopt if nothing is.
[[nodiscard]] std::optional<std::string> problem_with(const VerifyOptions& options);

/// Runs the command twice without superpipe, to see what of it is the same each time, and then with
/// it: as the flags say, with each of the budgets, or, where neither is given, as superpipe run
/// would and with half of the buffers that it then had on the device, or as much as its launches
/// need if that is too little. Compares all copies out of the device
/// that it can see, the exit code, and the lines of standard output as --output says. Writes
/// progress to stderr, and what came of it to stdout. REQUIRES: !problem_with(options), and a
/// command.
/// @return kSuccess if all that can be compared is the same; kProblemFound if not, or if there was
/// nothing to compare; kCannotRun and the like, as superpipe run.
[[nodiscard]] int verify_command(const VerifyOptions& options);

}  // namespace superpipe::cli
