// The command `superpipe`: reads its command line and hands over to one file per subcommand.

#include <exception>
#include <iostream>
#include <string>

#include "tools/superpipe/command_line/parser.h"
#include "tools/superpipe/exit_code.h"
#include "tools/superpipe/probes/child_program.h"

namespace superpipe::cli {
namespace {

int run_main(int argc, char** argv) {
  const CommandLine line = split_at_separator(argc, argv);
  const std::string first = line.first();
  // The doctor starts this executable for what has to be seen in a program of its own.
  if (first == kChildProgramWord) {
    return child_program_main({line.own.begin() + 1, line.own.end()});
  }
  Parser parser;
  if (const auto code = parser.parse(line)) return *code;
  return parser.parsed()->start(line);
}

}  // namespace
}  // namespace superpipe::cli

int main(int argc, char** argv) {
  try {
    return superpipe::cli::run_main(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "superpipe: " << error.what() << '\n';
    return superpipe::cli::kCannotRun;
  }
}
