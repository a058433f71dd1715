// Prints what is made of the command line's words and of the settings: the table of
// docs/settings.md, manual pages, and completion for shells. The build installs pages and
// completion, and scripts/settings_table keeps the table.

#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

#include "tools/superpipe/command_line/completion.h"
#include "tools/superpipe/command_line/manual_page.h"
#include "tools/superpipe/command_line/parser.h"
#include "tools/superpipe/exit_code.h"
#include "tools/superpipe/settings_table.h"

namespace superpipe::cli {
namespace {

namespace fs = std::filesystem;

// Throws std::exception if `file` cannot be written.
void write_file(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  out << text;
  out.close();
  if (!out) throw std::runtime_error("cannot write " + file.string());
}

// Writes all pages and completions into `share`, where an installation has them. What a folder of
// theirs held before is deleted, since it may be the page of a subcommand that is no more.
void write_share(const fs::path& share) {
  const CommandWords command = Parser().words();
  const fs::path pages = share / "man" / "man1";
  fs::remove_all(pages);
  write_file(pages / "superpipe.1", overview_page(command, SUPERPIPE_VERSION));
  for (const SubcommandWords& subcommand : command.subcommands) {
    write_file(pages / ("superpipe-" + subcommand.name + ".1"),
               manual_page(command, subcommand, SUPERPIPE_VERSION));
  }
  write_file(share / "bash-completion" / "completions" / "superpipe", bash_completion(command));
  write_file(share / "zsh" / "site-functions" / "_superpipe", zsh_completion(command));
  write_file(share / "fish" / "vendor_completions.d" / "superpipe.fish", fish_completion(command));
}

int print_main(const std::vector<std::string>& words) {
  if (words.size() == 1 && words[0] == "table") {
    std::cout << settings_table() << std::flush;
    return std::cout ? kSuccess : kProblemFound;
  }
  if (words.size() == 2 && words[0] == "share") {
    write_share(words[1]);
    return kSuccess;
  }
  std::cerr << "print_manuals: say what to print: table, or share FOLDER\n";
  return kBadUsage;
}

}  // namespace
}  // namespace superpipe::cli

int main(int argc, char** argv) {
  try {
    return superpipe::cli::print_main({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::cerr << "print_manuals: " << error.what() << '\n';
    return superpipe::cli::kProblemFound;
  }
}
