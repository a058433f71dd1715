// `superpipe run` and `superpipe profile`: start a program under superpipe.
#pragma once

#include "tools/superpipe/run_options.h"

namespace superpipe::cli {

/// Checks that all parts are there, sets the environment and replaces this process by the command.
///
/// REQUIRES: problem_with(options) is nullopt.
/// @return Only if it could not: an exit code of exit_code.h, after one line on stderr that says
/// what to do.
[[nodiscard]] int run_command(const RunOptions& options);

}  // namespace superpipe::cli
