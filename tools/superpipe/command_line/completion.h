// Completion of superpipe's command line for shells, made from its words. Each is a script that its
// shell finds by its place below share/. It runs nothing but, where a process can stand,
// `superpipe budget`, which lists those that there are.
#pragma once

#include <string>

#include "tools/superpipe/command_line/words.h"

namespace superpipe::cli {

/// For bash 4.4 or newer; with bash-completion it is loaded when it is needed, and what stands
/// after
/// "--" is completed as that command's own.
[[nodiscard]] std::string bash_completion(const CommandWords& command);

/// For zsh 5.8 or newer: the function _superpipe.
[[nodiscard]] std::string zsh_completion(const CommandWords& command);

/// For fish 3.4 or newer.
[[nodiscard]] std::string fish_completion(const CommandWords& command);

}  // namespace superpipe::cli
