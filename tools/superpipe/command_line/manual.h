// What users read of a subcommand besides its flags: the end of its help, and most of its manual
// page, are made of this.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace superpipe::cli {

/// Something that stands at the left of a list, and what it means, without a full stop.
struct ManualEntry {
  std::string term;
  std::string meaning;
};

/// A list with a heading: what formats there are.
struct ManualList {
  std::string heading;  ///< without a colon
  std::vector<ManualEntry> entries;
};

/// Sentences are whole, with a full stop, and may be of any length.
struct Manual {
  std::string synopsis{};                  ///< what follows the subcommand: "[FLAGS] FILE"
  std::vector<std::string> description{};  ///< paragraphs of the page alone, before `notes`
  std::vector<ManualList> lists{};
  std::vector<ManualEntry> examples{};  ///< a command, and what it does
  std::vector<std::string> notes{};     ///< paragraphs of help and page
  bool exits_as_command = false;        ///< the exit code is that of the command that it runs, or:
  std::vector<ManualEntry> exit_codes{};
};

/// `text` in lines of at most `width` characters, broken at spaces. A longer word has its own line.
[[nodiscard]] std::string wrapped(std::string_view text, std::size_t width);

/// Lists, examples, notes and exit codes, for the end of `superpipe NAME --help`. Lines have at
/// most 100 characters, but for examples that are longer themselves.
[[nodiscard]] std::string help_end(const Manual& manual);

}  // namespace superpipe::cli
