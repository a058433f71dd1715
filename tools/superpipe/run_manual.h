// What users read of `superpipe run`: the end of its help, README's table of settings, and the
// manual page. All of it is made from the settings and from the examples and exit codes here.
#pragma once

#include <string>
#include <string_view>

namespace superpipe::cli {

/// Examples and exit codes, for the end of `superpipe run --help`; lines of at most 100 characters.
[[nodiscard]] std::string run_help_footer();

/// README's table of settings in Markdown: one line each for head, rule and every setting that this
/// version has.
[[nodiscard]] std::string settings_table();

/// The manual page superpipe-run(1) of `version` in roff (man macros).
[[nodiscard]] std::string manual_page(std::string_view version);

/// `text` in lines of at most `width` characters, broken at spaces. A longer word has its own line.
[[nodiscard]] std::string wrapped(std::string_view text, std::size_t width);

}  // namespace superpipe::cli
