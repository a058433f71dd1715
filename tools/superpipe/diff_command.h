// `superpipe diff`: what is different between two runs, and whether the second is too much worse.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace superpipe::cli {

/// What stands on the command line.
struct DiffOptions {
  std::vector<std::string> files;  ///< A, before, and B, after
  /// PERCENT or NAME=PERCENT,...; nullopt: not given, which an empty text is not.
  std::optional<std::string> fail_above;
  bool json = false;  ///< one JSON object instead of text
};

/// What is wrong with the words, in one line that says what is allowed; nullopt if nothing is.
/// Opens no file.
[[nodiscard]] std::optional<std::string> problem_with(const DiffOptions& options);

/// Reads the files and writes the comparison to stdout; problems are lines on stderr, and progress,
/// on a terminal. Calls no driver. REQUIRES: !problem_with(options).
/// @return kSuccess; kProblemFound if a quantity is worse by more than is allowed; kBadUsage if a
/// file cannot be compared, or a quantity that is to be judged is not told well enough by both.
[[nodiscard]] int diff_command(const DiffOptions& options);

}  // namespace superpipe::cli
