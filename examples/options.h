// Command lines of the example programs.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace examples {

/// A command line that the program does not understand; what() is one line that says what is
/// allowed. Programs print it and exit with kUsageExit.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

constexpr int kFailureExit = 1;  // the run failed: no device, bad model, wrong result
constexpr int kUsageExit = 2;    // the command line is wrong; nothing was started

/// One option that a program knows.
struct OptionSpec {
  std::string_view name;  // with its dashes: "--model"
  bool takes_value;       // as the next word, or after '='
};

/// What stood on the command line.
class Options {
 public:
  /// Reads `arguments`: `argc` words, the program's name first. Known options are taken until "--";
  /// every other word that does not start with '-' is positional. Of an option given twice the last
  /// counts. Throws UsageError for an unknown option, a missing or a superfluous value.
  Options(int argc, const char* const* argv, std::span<const OptionSpec> known);

  /// Whether the option was given.
  [[nodiscard]] bool has(std::string_view name) const;

  /// The option's value, or `fallback` where it was not given.
  [[nodiscard]] std::string text(std::string_view name, std::string_view fallback) const;

  /// The option's value as a decimal whole number from `least` to `most`, or `fallback` where it
  /// was not given. Throws UsageError for anything else.
  [[nodiscard]] std::uint64_t count(std::string_view name, std::uint64_t fallback,
                                    std::uint64_t least, std::uint64_t most) const;

  /// The option's value, one of `allowed`; the first of these where it was not given. Throws
  /// UsageError for anything else. REQUIRES: `allowed` is not empty.
  [[nodiscard]] std::string choice(std::string_view name,
                                   std::span<const std::string_view> allowed) const;

  /// The words that are no options, in order.
  [[nodiscard]] const std::vector<std::string>& positional() const { return positional_; }

 private:
  std::map<std::string, std::string, std::less<>> values_;
  std::vector<std::string> positional_;
};

}  // namespace examples
