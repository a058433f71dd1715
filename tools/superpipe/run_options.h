// What `superpipe run` was asked for, and whether it makes sense: decided before anything is
// started. The settings themselves, and what they take, are those of settings/settings.h.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "settings/setting_values.h"
#include "settings/settings.h"

namespace superpipe::cli {

/// A command line of `superpipe run`, or of `superpipe profile`, which is a run with a trace;
/// unchecked.
struct RunOptions {
  const char* subcommand = "run";  ///< for messages
  /// The values of flags as typed, by SettingId; empty: not given. A switch that was given is "1".
  std::array<std::string, kSettingCount> flags;
  std::vector<std::string> command;  ///< what stands after "--"

  [[nodiscard]] const std::string& flag(SettingId id) const { return flags[index_of(id)]; }
  [[nodiscard]] std::string& flag(SettingId id) { return flags[index_of(id)]; }
  [[nodiscard]] bool simulates() const { return !flag(SettingId::kSimulate).empty(); }
};

/// The settings whose variables the flags of `options` make void. Of the two ways to say how much
/// stays on the device, layers and bytes, only the one that was given as a flag remains, and no
/// policy that counts the other way.
[[nodiscard]] std::vector<SettingId> variables_replaced_by(const RunOptions& options,
                                                           const Environment& environment);

/// The values that the program will run with: flags, and the variables that no flag replaces.
[[nodiscard]] SettingValues values_of(const RunOptions& options, const Environment& environment);

/// Where the files lie that flags name.
enum class FilesOf { kThisMachine, kAnotherMachine };

/// What is wrong with the flags of `options`, as one line that names the flag, its value and what
/// is allowed; nullopt if nothing is.
///
/// Reads the environment, because a flag may complete what a variable began (SUPERPIPE_K=4 and
/// --policy naive). What is wrong with variables alone is left to the library to say. Looks at the
/// files that flags name, if they lie here; of these it reads a plan alone.
[[nodiscard]] std::optional<std::string> problem_with(const RunOptions& options,
                                                      FilesOf files = FilesOf::kThisMachine);

}  // namespace superpipe::cli
