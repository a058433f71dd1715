#include "tools/superpipe/command_line/manual_page.h"

#include <algorithm>
#include <cctype>
#include <vector>

#include "settings/settings.h"

namespace superpipe::cli {
namespace {

// Text for the body of a page: hyphens are minus signs (or they could not be copied), quotes and
// carets are those of the keyboard, and a line does not begin with a control character.
std::string roff(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '\\':
        out += "\\e";
        break;
      case '-':
        out += "\\-";
        break;
      case '\'':
        out += "\\(aq";
        break;
      case '`':
        out += "\\(ga";
        break;
      case '^':
        out += "\\(ha";
        break;
      case '~':
        out += "\\(ti";
        break;
      default:
        out += c;
    }
  }
  return !out.empty() && out.front() == '.' ? "\\&" + out : out;
}

std::string bold(std::string_view text) { return "\\fB" + roff(text) + "\\fR"; }
std::string italic(std::string_view text) { return "\\fI" + roff(text) + "\\fR"; }

std::string section(std::string_view name) { return ".SH " + std::string(name) + '\n'; }
// The first one of a section needs no macro.
std::string paragraphs(const std::vector<std::string>& texts) {
  std::string out;
  for (const std::string& text : texts) out += (out.empty() ? "" : ".PP\n") + roff(text) + '\n';
  return out;
}
// A term, in roff already, and what it means.
std::string item(const std::string& term, std::string_view meaning) {
  std::string text = ".TP\n" + term + '\n';
  if (!meaning.empty()) text += roff(meaning) + '\n';
  return text;
}

// `text` with a capital and a full stop, or a question mark of its own. A first word with a digit
// is a value, such as gen3, which has to be typed as it stands.
std::string sentence(std::string text) {
  if (text.empty()) return text;
  const std::string word = text.substr(0, text.find_first_of(" ,"));
  if (word.find_first_of("0123456789") == std::string_view::npos) {
    text.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(text.front())));
  }
  return text.back() == '?' ? text : text + '.';
}

std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

std::string lower_first(std::string text) {
  if (!text.empty()) {
    text.front() = static_cast<char>(std::tolower(static_cast<unsigned char>(text.front())));
  }
  return text;
}

std::string title(std::string_view page, std::string_view version) {
  return ".\\\" Generated from the words of superpipe's command line: do not edit.\n.TH " +
         roff(upper(std::string(page))) + " 1 \"\" \"superpipe " + std::string(version) +
         "\" \"User Commands\"\n";
}

// Placeholders are in capitals, and brackets, dots and blanks belong to nobody.
std::string synopsis(std::string_view text) {
  std::string out, word;
  bool is_placeholder = true;
  const auto end_word = [&] {
    if (!word.empty()) out += is_placeholder ? italic(word) : bold(word);
    word.clear();
    is_placeholder = true;
  };
  for (const char c : text) {
    if (std::string_view(" [].|").find(c) != std::string_view::npos) {
      end_word();
      out += c;
    } else {
      is_placeholder = is_placeholder && std::isupper(static_cast<unsigned char>(c)) != 0;
      word += c;
    }
  }
  end_word();
  return out;
}

std::string word_item(const Word& word) {
  std::string term;
  for (const std::string& flag : word.flags) term += (term.empty() ? "" : ", ") + bold(flag);
  if (!word.placeholder.empty()) {
    term += (term.empty() ? "" : " ") + italic(word.placeholder);
    if (word.repeats) term += "...";
  }
  if (!word.variable.empty()) {
    term += ", " + bold(word.variable + (word.values.kind == ValueKind::kNone ? "=1" : ""));
  }
  return item(term, sentence(word.meaning));
}

std::string words_section(const std::vector<Word>& words) {
  std::string text = section("OPTIONS");
  for (const Word& word : words) text += word_item(word);
  return text;
}

// The variables that no flag mirrors.
std::string environment_section() {
  std::string text =
      section("ENVIRONMENT") + paragraphs({"Besides the variables that flags mirror:"});
  for (const Setting& setting : all_settings()) {
    if (setting.has_flag()) continue;
    const std::string value = setting.kind == SettingKind::kSwitch ? "=1" : "=";
    text += item(bold(setting.variable + value) + italic(setting.placeholder),
                 sentence(description_of(setting)));
  }
  return text;
}

std::string page_reference(const std::string& page) { return bold(page) + "(1)"; }

// All pages but `own`.
std::string see_also(const CommandWords& command, const std::string& own) {
  std::string pages = own == "superpipe" ? "" : page_reference("superpipe");
  for (const SubcommandWords& other : command.subcommands) {
    const std::string page = "superpipe-" + other.name;
    if (page != own) pages += (pages.empty() ? "" : ",\n") + page_reference(page);
  }
  return section("SEE ALSO") + pages + '\n';
}

}  // namespace

std::string overview_page(const CommandWords& command, std::string_view version) {
  std::string page = title("superpipe", version) + section("NAME") + "superpipe \\- " +
                     roff(command.purpose) + '\n';
  page += section("SYNOPSIS") + bold("superpipe") + ' ' + italic("SUBCOMMAND") + " [" +
          italic("FLAGS") + "...]\n";
  page += section("DESCRIPTION");
  page += paragraphs(
      {"Puts a library in front of the CUDA driver of an unmodified program. The library learns "
       "which buffers each kernel uses, keeps on the device what fits, and brings the rest back "
       "from host memory before it is needed. Results are bit-identical."});
  page += section("SUBCOMMANDS") +
          paragraphs({"Each has a page of its own, and says the same with --help."});
  for (const SubcommandWords& subcommand : command.subcommands) {
    page += item(page_reference("superpipe-" + subcommand.name), sentence(subcommand.purpose));
  }
  return page + words_section(command.words) + see_also(command, "superpipe");
}

std::string manual_page(const CommandWords& command, const SubcommandWords& subcommand,
                        std::string_view version) {
  const Manual& manual = subcommand.manual;
  const std::string name = "superpipe-" + subcommand.name;
  std::string page = title(name, version) + section("NAME") + roff(name) + " \\- " +
                     roff(lower_first(subcommand.purpose)) + '\n';
  page += section("SYNOPSIS") + bold("superpipe " + subcommand.name) + ' ' +
          synopsis(manual.synopsis) + '\n';
  std::vector<std::string> description = manual.description;
  if (description.empty()) description = {sentence(subcommand.purpose)};
  description.insert(description.end(), manual.notes.begin(), manual.notes.end());
  page += section("DESCRIPTION") + paragraphs(description);
  page += words_section(subcommand.words);
  for (const ManualList& list : manual.lists) {
    page += section(upper(list.heading));
    for (const ManualEntry& entry : list.entries) {
      page += item(bold(entry.term), sentence(entry.meaning));
    }
  }
  if (subcommand.name == "run") page += environment_section();
  page += section("EXIT STATUS");
  if (manual.exits_as_command) page += paragraphs({"The command's own, or:"});
  for (const ManualEntry& exit : manual.exit_codes) {
    page += item(exit.term, sentence(exit.meaning));
  }
  page += section("EXAMPLES");
  for (const ManualEntry& example : manual.examples) {
    page += item(bold(example.term), sentence(example.meaning));
  }
  return page + see_also(command, name);
}

}  // namespace superpipe::cli
