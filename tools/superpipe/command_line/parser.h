// Reads the words of a command line of `superpipe`.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tools/superpipe/command_line/subcommand.h"

namespace superpipe::cli {

/// The words of `argv` but the program's name. What follows "--" belongs to the program that is
/// run, whatever it looks like.
[[nodiscard]] CommandLine split_at_separator(int argc, char** argv);

/// The parser, and the subcommands, whose options it fills.
class Parser {
 public:
  Parser();

  /// Fills the options. @return the exit code if that is all there is to do: the words are wrong,
  /// or ask for help or the version, which is then printed.
  std::optional<int> parse(const CommandLine& line);

  /// The one that was asked for; null: none was.
  [[nodiscard]] Subcommand* parsed() const;

  /// All that can stand on a command line.
  [[nodiscard]] CommandWords words() const;

 private:
  [[nodiscard]] int refuse_extra_word() const;
  // What to say where no subcommand was found; `first` is the first word, empty if there is none.
  [[nodiscard]] std::string no_subcommand(const std::string& first) const;

  static constexpr const char* kPurpose = "runs CUDA programs whose models are larger than the GPU";

  CLI::App app_{std::string("superpipe: ") + kPurpose, "superpipe"};
  const std::vector<std::unique_ptr<Subcommand>> subcommands_;
  std::vector<CLI::App*> apps_;  // in the same order
};

}  // namespace superpipe::cli
