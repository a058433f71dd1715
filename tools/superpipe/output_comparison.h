// Whether runs of one program print the same.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace superpipe::cli {

/// Which lines of standard output count as the same.
enum class OutputRule : std::uint8_t {
  kLines,    ///< those with the same bytes
  kNoTimes,  ///< those that are the same but for times and rates (without_times())
  kIgnore,   ///< all: output is not compared
};
inline constexpr std::array<OutputRule, 3> kOutputRules = {OutputRule::kLines, OutputRule::kNoTimes,
                                                           OutputRule::kIgnore};
/// As --output takes it.
[[nodiscard]] std::string_view name_of(OutputRule rule);
/// nullopt: there is none of this name.
[[nodiscard]] std::optional<OutputRule> output_rule_named(std::string_view name);

/// `line` with a mark in place of each number that has a unit of time ("13.1 ms", "2 seconds"), of
/// each rate ("31 it/s", "2.5 GB/s") and of each clock ("0:01:07.5"). Pure. O(length).
[[nodiscard]] std::string without_times(std::string_view line);

/// What a program prints without superpipe, as far as runs of it agree.
class OutputBaseline {
 public:
  OutputBaseline(std::vector<std::string> first, OutputRule rule);

  /// One more run without superpipe: lines that are others in it are not compared.
  void add(const std::vector<std::string>& output);

  [[nodiscard]] OutputRule rule() const { return rule_; }
  /// Lines of the first run.
  [[nodiscard]] const std::vector<std::string>& lines() const { return first_; }
  /// How many of them are not the same each time.
  [[nodiscard]] std::size_t varying() const;
  /// The lines of `output`, counted from 0, that are not what they are each time without superpipe;
  /// those that one of the two lacks among them.
  [[nodiscard]] std::vector<std::size_t> differing(const std::vector<std::string>& output) const;

 private:
  [[nodiscard]] bool are_same(std::size_t line, const std::string& other) const;

  std::vector<std::string> first_;
  OutputRule rule_;
  std::vector<bool> varies_;  ///< by line of first_
};

}  // namespace superpipe::cli
