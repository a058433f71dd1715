// Files that a reader never finds half written.
#pragma once

#include <optional>
#include <string>

namespace superpipe {

/// Makes `text` the content of the file at `path`: a reader finds the old content or the new one.
/// What is not a regular file (a device, a pipe) cannot be replaced, and is written to.
///
/// For a moment, a second file lies beside `path`, with the process's id and ".part" after its
/// name; so only one thread of a process may write to the same `path`. Waits for the file system.
/// @return nullopt, or what went wrong, in words that name the file; a regular file at `path` is
/// then as it was.
[[nodiscard]] std::optional<std::string> write_file_atomically(const std::string& path,
                                                               const std::string& text);

}  // namespace superpipe
