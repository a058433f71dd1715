// What every subcommand of `superpipe` is: its words on the command line, and what it does.
#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tools/superpipe/command_line/words.h"

namespace superpipe::cli {

/// The group of flags that the manual and completion have, and help does not.
inline constexpr char kNotInHelp[] = "Rarely needed";

/// The command line before "--", and what follows it.
struct CommandLine {
  std::vector<std::string> own;
  std::optional<std::vector<std::string>> command;  ///< nullopt: there is no "--"

  [[nodiscard]] std::string first() const { return own.empty() ? "" : own.front(); }
};

/// Writes `line` to stderr, in one line that begins with the program and `command`, which is empty
/// where none was found. @return kBadUsage.
int bad_usage(const std::string& command, const std::string& line);

/// Whether `word` begins as flags do.
[[nodiscard]] bool is_flag(const std::string& word);

/// What to say of `word` where `command` has no such flag.
[[nodiscard]] std::string no_such_flag(const std::string& word, const std::string& command);

/// One of the things that the command can do.
class Subcommand {
 public:
  virtual ~Subcommand() = default;
  [[nodiscard]] virtual std::string name() const = 0;
  [[nodiscard]] virtual std::string purpose() const = 0;
  /// Adds its flags and words to `app`, which fills the options.
  virtual void add_to(CLI::App& app) = 0;
  /// What its help and its manual page say besides.
  [[nodiscard]] virtual Manual manual() const = 0;
  /// Whether a command stands after "--".
  [[nodiscard]] virtual bool takes_command() const { return false; }
  /// The environment variable that `flag` mirrors; empty: none.
  [[nodiscard]] virtual std::string variable_of_flag(const std::string& /*flag*/) const {
    return {};
  }
  /// What `option`, which it added, may be: what complete_with() was told, or what is plain from
  /// the placeholder: FILE, SIZE and PID.
  [[nodiscard]] Values values_of(const CLI::Option& option) const;
  /// What is wrong with a word that is no flag and that it does not take.
  [[nodiscard]] virtual std::string too_much(const std::string& word) const {
    return no_such_flag(word, name());
  }
  /// Checks what was parsed, and does it. @return the exit code.
  virtual int start(const CommandLine& line) = 0;

 protected:
  static CLI::Option& add(CLI::App& app, const char* flag, std::string& value,
                          const std::string& meaning, const char* placeholder) {
    return *app.add_option(flag, value, meaning)->type_name(placeholder);
  }
  /// Says what shells offer for `option`.
  void complete_with(const CLI::Option& option, Values values) {
    values_[&option] = std::move(values);
  }

 private:
  std::map<const CLI::Option*, Values> values_;
};

}  // namespace superpipe::cli
