// Which files commands are about.
#pragma once

#include <span>
#include <string>

namespace superpipe::cli {

/// Whether both are there and one regular file, whatever their names.
[[nodiscard]] bool is_same_file(const std::string& one, const std::string& other);

/// The other files of the run that the trace at `path` is of, without those that are among `named`:
/// "a, b and 3 more". Empty: there are none, or `path` is no trace.
[[nodiscard]] std::string other_trace_files(const std::string& path,
                                            std::span<const std::string> named);

}  // namespace superpipe::cli
