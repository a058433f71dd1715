// `superpipe budget`: says, or changes, how much of the device a running program may use.
#pragma once

#include <optional>
#include <string>

namespace superpipe::cli {

/// What stands on the command line; empty strings: not given.
struct BudgetOptions {
  std::string pid;      ///< the process; none: list those that there are
  std::string size;     ///< SIZE: its new budget; none: say what it is
  std::string timeout;  ///< seconds to wait at most
};

/// What is wrong with the words, in one line that says what is allowed; nullopt if nothing is.
[[nodiscard]] std::optional<std::string> problem_with(const BudgetOptions& options);

/// Asks the process through its live segment (profiler/live_process.h), and waits until the new
/// budget is in force and the pages fit, at most the timeout. Writes what came of it to stdout,
/// progress and problems to stderr. Calls no driver. REQUIRES: !problem_with(options).
/// `folder`: where the segments lie.
/// @return kSuccess; kProblemFound if it was not done, or the pages do not fit yet.
[[nodiscard]] int budget_command(const BudgetOptions& options, const std::string& folder);

}  // namespace superpipe::cli
