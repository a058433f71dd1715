// The table of docs/settings.md.
#pragma once

#include <string>

namespace superpipe::cli {

/// The table in Markdown: one line each for head, rule and every setting that this version has.
[[nodiscard]] std::string settings_table();

}  // namespace superpipe::cli
