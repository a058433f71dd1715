// Where a long analysis is: a line on standard error, on a terminal alone.
#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace superpipe::cli {

/// Replaced in place, ten times a second at most, and gone at the end. One at a time, for one
/// thread.
class ProgressLine {
 public:
  /// `subcommand` begins the line. `wanted`: false where the output itself goes to the terminal.
  explicit ProgressLine(std::string subcommand, bool wanted = true);
  ~ProgressLine() { clear(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  /// A step begins: shown at once. `what` may have bytes in it that would steer a terminal.
  void begin(const std::string& what);
  /// The same step goes on: shown if the last line is old enough.
  void say(const std::string& what);
  /// Removes the line, before anything else is printed.
  void clear();

 private:
  const std::string subcommand_;
  const bool is_shown_;
  std::optional<std::chrono::steady_clock::time_point> last_;  // nullopt: there is no line
};

}  // namespace superpipe::cli
