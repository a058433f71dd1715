// `superpipe report`: makes a page of traces, to be looked at in a browser.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace superpipe::cli {

/// What stands on the command line; empty: not given.
struct ReportOptions {
  std::vector<std::string> files;  ///< the traces
  std::string output;              ///< the page; "-" is standard output
  std::string link;                ///< for the plan, as in superpipe plan
  bool no_plan = false;
};

/// What is wrong with the words, in one line that says what is allowed; nullopt if nothing is.
[[nodiscard]] std::optional<std::string> problem_with(const ReportOptions& options);

/// Reads the traces and writes the page; a line on stdout says where to, unless that is standard
/// output. What traces lack, and problems, are lines on stderr, and progress, on a terminal. Calls
/// no driver. REQUIRES: !problem_with(options).
/// @return kSuccess; kBadUsage if a trace is none or is damaged, or the page cannot be written.
/// There is no new file then.
[[nodiscard]] int report_command(const ReportOptions& options);

}  // namespace superpipe::cli
