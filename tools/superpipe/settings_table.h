// README's table of settings.
#pragma once

#include <string>

namespace superpipe::cli {

/// README's table of settings in Markdown: one line each for head, rule and every setting that this
/// version has.
[[nodiscard]] std::string settings_table();

}  // namespace superpipe::cli
