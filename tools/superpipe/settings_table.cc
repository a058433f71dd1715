#include "tools/superpipe/settings_table.h"

#include <array>
#include <string_view>

#include "settings/settings.h"

namespace superpipe::cli {
namespace {

// `text` with `escaped` written in front of each character of `special`.
std::string with_escape(std::string_view text, std::string_view special, char escape) {
  std::string out;
  for (const char c : text) {
    if (special.find(c) != std::string_view::npos) out += escape;
    out += c;
  }
  return out;
}

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

}  // namespace

std::string settings_table() {
  std::string table = "| flag | variable | meaning |\n|---|---|---|\n";
  for (const Setting& setting : all_settings()) {
    table += table_row({flag_cell(setting), variable_cell(setting),
                        with_escape(description_of(setting), "|", '\\')});
  }
  return table;
}

}  // namespace superpipe::cli
