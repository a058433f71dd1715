// One line of a terminal that a library may write to while the program that it lives in writes too.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

namespace superpipe {

/// A line that is replaced in place for as long as nothing else writes to the terminal.
///
/// The cursor always rests at the beginning of an empty line below it, so that whatever the program
/// prints next stands by itself. Once something else has written (inotify tells), the line is left
/// where it is, and the next one begins on a line of its own, after a rest: never in the midst of
/// what the program writes, and a few times at most. Nothing is written while this process is in
/// the background, the terminal is stopped, or it is not in the mode in which it edits and shows
/// lines itself: line editors, debuggers, pagers and password prompts change that.
/// docs/decisions/0013-progress-line.md.
///
/// For one thread at a time. Of two that write at the same instant, between one system call of ours
/// and the next, the terminal may show the program's line overwritten.
class TerminalLine {
 public:
  using Clock = std::chrono::steady_clock;

  /// How long others have to be silent before a line begins.
  static constexpr std::chrono::milliseconds kRest{1000};
  /// How many lines there are at most.
  static constexpr int kMostLines = 5;

  /// For the terminal at `descriptor`, which stays the caller's.
  /// @return null if it is no terminal that can move its cursor, or cannot be watched.
  static std::unique_ptr<TerminalLine> open(int descriptor, Clock::time_point now);
  ~TerminalLine();
  TerminalLine(const TerminalLine&) = delete;
  TerminalLine& operator=(const TerminalLine&) = delete;

  /// How long a text may be that show() shows whole.
  [[nodiscard]] std::size_t columns() const noexcept;
  /// Shows `text`, which has no control characters, cut to the terminal's width, if that is allowed
  /// now. Waits for nothing.
  void show(const std::string& text, Clock::time_point now) noexcept;
  /// Removes the line, unless others have written since.
  void erase() noexcept;

 private:
  TerminalLine(int descriptor, int watch, Clock::time_point now)
      : descriptor_(descriptor), watch_(watch), quiet_since_(now) {}

  [[nodiscard]] bool has_watch() noexcept;
  [[nodiscard]] bool others_wrote() const noexcept;
  [[nodiscard]] bool may_write() const noexcept;
  [[nodiscard]] bool write(const std::string& text) const noexcept;

  const int descriptor_;
  int watch_;  // an inotify descriptor; negative: the program has closed it, and no line is shown
  Clock::time_point quiet_since_;
  bool is_shown_ = false;
  int lines_ = 0;
};

}  // namespace superpipe
