// What can stand on the command line of superpipe, as plain data, for those who print it: manual
// pages (manual_page.h) and completion (completion.h). The parser says what it is (parser.h).
#pragma once

#include <string>
#include <vector>

#include "tools/superpipe/command_line/manual.h"

namespace superpipe::cli {

/// What the value of a flag, or a word that is no flag, may be.
enum class ValueKind {
  kNone,     ///< there is no value: a switch
  kText,     ///< anything, such as a number
  kChoice,   ///< one of a few words
  kFile,     ///< a path
  kSize,     ///< a SIZE: a number with a unit
  kProcess,  ///< the number of a process that runs under superpipe
  kLog,      ///< a LEVEL, and perhaps a colon and a path
};

/// The values that a flag or word takes.
struct Values {
  ValueKind kind = ValueKind::kText;
  std::vector<std::string> choices{};  ///< kChoice: all, or the usual ones; kLog: levels
  bool is_list = false;                ///< several with commas between
};

/// A flag, or a word that is none.
struct Word {
  std::vector<std::string> flags{};  ///< "-o", "--output"; empty: a word by its position
  std::string placeholder{};         ///< "FILE"; a switch has none
  std::string meaning{};             ///< without a full stop
  std::string variable{};            ///< the environment variable that it mirrors; empty: none
  Values values{};
  bool repeats = false;  ///< any number of such words
};

/// One subcommand.
struct SubcommandWords {
  std::string name{};
  std::string purpose{};       ///< "Run a command under superpipe"
  bool takes_command = false;  ///< a command stands after "--"
  std::vector<Word> words{};   ///< all that its help shows, in that order
  Manual manual{};
};

/// The whole command line.
struct CommandWords {
  std::string purpose;
  std::vector<Word> words;  ///< those without a subcommand
  std::vector<SubcommandWords> subcommands;
};

}  // namespace superpipe::cli
