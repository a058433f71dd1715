#include "tools/superpipe/command_line/manual.h"

#include <algorithm>

namespace superpipe::cli {
namespace {

constexpr std::size_t kHelpWidth = 100;
// Longer terms have their meaning on a line of its own.
constexpr std::size_t kLongestTerm = 56;

std::string help_list(const std::string& heading, const std::vector<ManualEntry>& entries) {
  std::size_t longest = 0;
  for (const ManualEntry& entry : entries) {
    if (entry.term.size() <= kLongestTerm) longest = std::max(longest, entry.term.size());
  }
  const std::string indent(longest + 4, ' ');
  std::string text = heading + ":\n";
  for (const ManualEntry& entry : entries) {
    std::string line = "  " + entry.term;
    if (entry.meaning.empty()) {
      text += line + '\n';
      continue;
    }
    if (entry.term.size() > longest) {
      text += line + '\n';
      line.clear();
    }
    line.resize(indent.size(), ' ');
    const std::string meaning = wrapped(entry.meaning, kHelpWidth - indent.size());
    for (const char c : meaning) line += c == '\n' ? '\n' + indent : std::string(1, c);
    text += line + '\n';
  }
  return text + '\n';
}

}  // namespace

std::string wrapped(std::string_view text, std::size_t width) {
  std::string out;
  std::size_t column = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    if (column > 0) {
      const bool fits = column + 1 + word.size() <= width;
      out += fits ? ' ' : '\n';
      column = fits ? column + 1 : 0;
    }
    out += word;
    column += word.size();
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

std::string help_end(const Manual& manual) {
  std::string text;
  for (const ManualList& list : manual.lists) text += help_list(list.heading, list.entries);
  if (!manual.examples.empty()) text += help_list("Examples", manual.examples);
  for (const std::string& note : manual.notes) text += wrapped(note, kHelpWidth) + '\n';
  std::string codes = manual.exits_as_command ? "Exit code: the command's own" : "Exit code:";
  std::string separator = manual.exits_as_command ? "; " : " ";
  for (const ManualEntry& exit : manual.exit_codes) {
    codes += separator;
    codes += exit.term + ' ' + exit.meaning;
    separator = "; ";
  }
  return text + wrapped(codes + '.', kHelpWidth);
}

}  // namespace superpipe::cli
