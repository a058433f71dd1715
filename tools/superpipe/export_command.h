// `superpipe export`: writes a trace in a format that other tools read.
#pragma once

#include <optional>
#include <string>

namespace superpipe::cli {

/// What stands on the command line; empty strings: not given.
struct ExportOptions {
  std::string file;    ///< the trace
  std::string format;  ///< one of export_formats()
  std::string output;  ///< where to; "-" is standard output; none: beside the trace, named after it
  std::string stacks;  ///< the weight of collapsed stacks; none: allocated
};

/// The names of the formats, with ", " between.
[[nodiscard]] std::string export_formats();

/// What is wrong with the words, in one line that says what is allowed; nullopt if nothing is.
[[nodiscard]] std::optional<std::string> problem_with(const ExportOptions& options);

/// Reads the trace and writes it in its new format; a line on stdout says where to, unless that is
/// standard output. What the trace lacks (it ends early, events were dropped, the run has more
/// files) and problems are lines on stderr. Memory does not grow with the number of events. Calls
/// no driver. REQUIRES: !problem_with(options).
/// @return kSuccess; kBadUsage if the trace is none or is damaged, if the bytes were for a
/// terminal, or if the output cannot be written. Without kSuccess there is no new file.
[[nodiscard]] int export_command(const ExportOptions& options);

}  // namespace superpipe::cli
