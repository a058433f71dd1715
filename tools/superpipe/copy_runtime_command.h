// `superpipe copy-runtime`: copies what a program under superpipe needs into another folder, such
// as one that containers share.
#pragma once

#include <optional>
#include <string>

namespace superpipe::cli {

/// What stands on the command line.
struct CopyRuntimeOptions {
  std::string folder;     ///< where to put it
  bool simulate = false;  ///< with simgpu
};

/// Where `superpipe copy-runtime FOLDER` puts an installation: a folder of its own in FOLDER, so
/// that FOLDER itself can be a mounted volume.
[[nodiscard]] std::string runtime_prefix(const std::string& folder);

/// What is wrong with the words, in one line; nullopt if nothing is.
[[nodiscard]] std::optional<std::string> problem_with(const CopyRuntimeOptions& options);

/// Copies the command, the preload library, what these load, and licences. Others may read the
/// copy, and only this user may write it.
///
/// It is made beside its place and then takes it by one renaming, so that a program finds all of
/// the old copy or all of the new one; running programs keep what they have opened. A copy that
/// is there is replaced, and nothing else is: what no `superpipe copy-runtime` made stays. A file
/// system that cannot exchange two folders (NFS) has neither for a moment.
/// REQUIRES: !problem_with(options).
/// @return kSuccess; after one line on stderr, kCannotRun where a part is missing, and kBadUsage
/// where the folder cannot be written, which leaves what was there.
[[nodiscard]] int copy_runtime_command(const CopyRuntimeOptions& options);

}  // namespace superpipe::cli
