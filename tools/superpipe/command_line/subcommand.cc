#include "tools/superpipe/command_line/subcommand.h"

#include <iostream>

#include "tools/superpipe/exit_code.h"

namespace superpipe::cli {

int bad_usage(const std::string& command, const std::string& line) {
  std::cerr << "superpipe" << (command.empty() ? "" : " ") << command << ": " << line << '\n';
  return kBadUsage;
}

bool is_flag(const std::string& word) { return word.rfind('-', 0) == 0; }

std::string no_such_flag(const std::string& word, const std::string& command) {
  return "there is no flag '" + word + "'; see superpipe " + command +
         (command.empty() ? "" : " ") + "--help";
}

Values Subcommand::values_of(const CLI::Option& option) const {
  if (const auto told = values_.find(&option); told != values_.end()) return told->second;
  if (option.get_items_expected_max() == 0) return {.kind = ValueKind::kNone};
  const std::string placeholder =
      option.get_positional() ? option.get_name(true) : option.get_type_name();
  const std::string first = placeholder.substr(0, placeholder.find(','));
  Values values;
  values.is_list = first.size() < placeholder.size();
  if (first == "FILE") values.kind = ValueKind::kFile;
  if (first == "SIZE") values.kind = ValueKind::kSize;
  if (first == "PID") values.kind = ValueKind::kProcess;
  return values;
}

}  // namespace superpipe::cli
