#include "tools/superpipe/run_manual.h"

#include <algorithm>
#include <array>

#include "policy/settings.h"
#include "tools/superpipe/exit_code.h"

namespace superpipe::cli {
namespace {

struct Example {
  std::string_view command;
  std::string_view meaning;
};

constexpr std::array<Example, 3> kExamples = {{
    {"superpipe run --k 4 --k-prime 2 -- python generate.py",
     "4 layers on the device, moved 2 at a time"},
    {"superpipe run --gpu-mem 6G -- ./train", "as many layers as 6 GiB hold"},
    {R"(superpipe run --simulate --k 2 -- superpipe-minilm "one sentence" "another")",
     "without a GPU, on a simulated one"},
}};

struct ExitCode {
  int code;
  std::string_view meaning;
};

constexpr std::array<ExitCode, 4> kExitCodes = {{
    {kBadUsage, "bad usage"},
    {kCannotRun, "superpipe cannot run here"},
    {kNotExecutable, "the command cannot be executed"},
    {kCommandNotFound, "there is no such command"},
}};

constexpr std::string_view kSizes =
    "SIZE is bytes, or K, M, G, T (KiB, MiB, ...) as powers of 1024, or a percentage of the device "
    "(--host-mem: of the host's memory).";
constexpr std::string_view kFlagsAndVariables =
    "Each flag mirrors a variable (--host-mem is SUPERPIPE_HOST_MEM); a flag wins over its "
    "variable.";

// `text` with `escaped` written in front of each character of `special`.
std::string with_escape(std::string_view text, std::string_view special, char escape) {
  std::string out;
  for (const char c : text) {
    if (special.find(c) != std::string_view::npos) out += escape;
    out += c;
  }
  return out;
}

// ---- Markdown

std::string code(const std::string& text) { return '`' + with_escape(text, "|", '\\') + '`'; }

std::string flag_cell(const Setting& setting) {
  if (!setting.has_flag()) return "";
  if (*setting.placeholder == '\0') return code(setting.flag);
  return code(std::string(setting.flag) + ' ' + setting.placeholder);
}

// A variable that stands alone shows what it takes; beside a flag with a value that would say it
// twice.
std::string variable_cell(const Setting& setting) {
  if (!setting.has_variable()) return "";
  std::string text = setting.variable;
  if (setting.kind == SettingKind::kSwitch) {
    text += "=1";
  } else if (!setting.has_flag()) {
    text += std::string("=") + setting.placeholder;
  }
  return code(text);
}

std::string table_row(const std::array<std::string, 3>& cells) {
  std::string row = "|";
  for (const std::string& cell : cells) row += (cell.empty() ? "" : " " + cell) + " |";
  return row + '\n';
}

// ---- roff

// Text for the body of a page: hyphens are minus signs (or they could not be copied), and a line
// does not begin with a control character.
std::string roff(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
  }
  return !out.empty() && (out.front() == '.' || out.front() == '\'') ? "\\&" + out : out;
}

std::string bold(std::string_view text) { return "\\fB" + roff(text) + "\\fR"; }
std::string italic(std::string_view text) { return "\\fI" + roff(text) + "\\fR"; }

std::string section(std::string_view name) { return ".SH " + std::string(name) + '\n'; }
std::string paragraph(std::string_view text) { return ".PP\n" + roff(text) + '\n'; }
// A term, in roff already, and what it means.
std::string item(const std::string& term, std::string_view meaning) {
  return ".TP\n" + term + '\n' + roff(meaning) + '\n';
}

// `text` with a capital and a full stop. REQUIRES: text is not empty.
std::string sentence(std::string text) {
  if (text.front() >= 'a' && text.front() <= 'z') text.front() += 'A' - 'a';
  return text + '.';
}

std::string flag_item(const Setting& setting) {
  std::string term = bold(setting.flag);
  if (*setting.placeholder != '\0') term += ' ' + italic(setting.placeholder);
  if (setting.has_variable()) {
    term += ", " + bold(std::string(setting.variable) +
                        (setting.kind == SettingKind::kSwitch ? "=1" : ""));
  }
  return item(term, sentence(description_of(setting)));
}

std::string variable_item(const Setting& setting) {
  std::string term =
      bold(std::string(setting.variable) + '=' + (setting.kind == SettingKind::kSwitch ? "1" : ""));
  term += italic(setting.placeholder);
  return item(term, sentence(description_of(setting)));
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

std::string run_help_footer() {
  constexpr std::size_t kWidth = 100, kColumn = 58;
  std::string text = "Examples:\n";
  for (const Example& example : kExamples) {
    std::string line = "  " + std::string(example.command);
    if (line.size() + 2 > kColumn) {
      text += line + '\n';
      line.clear();
    }
    line.resize(kColumn, ' ');
    text += line + std::string(example.meaning) + '\n';
  }
  std::string codes = "Exit code: the command's own";
  char separator = ';';
  for (const ExitCode& exit : kExitCodes) {
    codes += separator + (" " + std::to_string(exit.code) + ' ') + std::string(exit.meaning);
    separator = ',';
  }
  text += '\n' + wrapped(kSizes, kWidth) + '\n' + wrapped(kFlagsAndVariables, kWidth) + '\n' +
          wrapped(codes + '.', kWidth);
  return text;
}

std::string settings_table() {
  std::string table = "| flag | variable | meaning |\n|---|---|---|\n";
  for (const Setting& setting : all_settings()) {
    if (!setting.is_available()) continue;
    table += table_row({flag_cell(setting), variable_cell(setting),
                        with_escape(description_of(setting), "|", '\\')});
  }
  return table;
}

std::string manual_page(std::string_view version) {
  std::string page =
      ".\\\" Generated from policy/settings.cc and tools/superpipe/run_manual.cc: do not edit.\n"
      ".TH SUPERPIPE\\-RUN 1 \"\" \"superpipe " +
      std::string(version) + "\" \"User Commands\"\n";
  page += section("NAME") +
          "superpipe\\-run \\- run a CUDA program whose model is larger than the GPU\n";
  page += section("SYNOPSIS") + bold("superpipe run") + " [" + italic("FLAGS") + "] " + bold("--") +
          ' ' + italic("COMMAND") + " [" + italic("ARGUMENTS") + "...]\n";
  page += section("DESCRIPTION");
  page += paragraph(
      "Puts superpipe's library in front of the CUDA driver and replaces itself by COMMAND. The "
      "library learns which buffers each kernel uses, keeps k of the model's layers on the device "
      "and the rest in host memory, and brings every layer back before it is needed. Results are "
      "bit-identical.");
  page += paragraph(
      "A bad flag is refused before anything starts. A bad variable is said in one line, and the "
      "program runs without superpipe.");
  page += section("OPTIONS");
  page += paragraph(std::string(kFlagsAndVariables) + ' ' + std::string(kSizes));
  for (const Setting& setting : all_settings()) {
    if (setting.is_available() && setting.has_flag()) page += flag_item(setting);
  }
  page += section("ENVIRONMENT");
  page += paragraph("Besides the variables that flags mirror:");
  for (const Setting& setting : all_settings()) {
    if (setting.is_available() && !setting.has_flag()) page += variable_item(setting);
  }
  page += section("EXIT STATUS") + paragraph("The command's own, or:");
  for (const ExitCode& exit : kExitCodes) {
    page += item(std::to_string(exit.code), sentence(std::string(exit.meaning)));
  }
  page += section("EXAMPLES");
  for (const Example& example : kExamples) {
    page += item(bold(example.command), sentence(std::string(example.meaning)));
  }
  return page;
}

}  // namespace superpipe::cli
