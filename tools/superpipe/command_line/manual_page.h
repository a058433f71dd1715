// Manual pages in roff (man macros), made from the words of the command line and from the settings.
#pragma once

#include <string>
#include <string_view>

#include "tools/superpipe/command_line/words.h"

namespace superpipe::cli {

/// The page superpipe(1) of `version`: what subcommands there are.
[[nodiscard]] std::string overview_page(const CommandWords& command, std::string_view version);

/// The page superpipe-NAME(1) of `version` for one of the subcommands of `command`. The page of
/// `run` also has the environment variables that have no flag.
[[nodiscard]] std::string manual_page(const CommandWords& command,
                                      const SubcommandWords& subcommand, std::string_view version);

}  // namespace superpipe::cli
