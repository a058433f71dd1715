// The screen of `superpipe top` as lines of text, and what keys do to it.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "policy/units.h"
#include "tools/superpipe/top_model.h"

namespace superpipe::cli {

/// @name Numbers of a few characters
/// @{
/// Bytes as a SIZE: "0", "512", "1.5K", "16M", "1023M", "3.9G"; at most five characters below 1
/// EiB.
[[nodiscard]] std::string short_bytes(double bytes);
/// A time: "0", "17us", "4.1ms", "41ms", "1.3s", "120s", "90m", "27h".
[[nodiscard]] std::string short_time(double seconds);
/// A count: "999", "12k", "4.5M".
[[nodiscard]] std::string short_count(double count);
/// A share: "0%", "12%", "250%", ">999%".
[[nodiscard]] std::string short_percent(double share);
/// @}

/// How many columns UTF-8 text of narrow characters takes.
[[nodiscard]] std::size_t width_of(std::string_view text);
/// The part of `text` that takes at most `width` columns.
[[nodiscard]] std::string cut_to(std::string_view text, std::size_t width);

/// A bar of `width` columns, brackets included, of which `share`, in [0, 1], is filled:
/// "[####....]". Empty if there is no room for one.
[[nodiscard]] std::string bar(double share, std::size_t width);
/// The latest values, one column each, as heights of `largest`; at most `width` of them, filled up
/// with spaces from the left. `blocks`: with Unicode's blocks instead of ASCII.
[[nodiscard]] std::string history_bar(const std::deque<double>& values, double largest,
                                      std::size_t width, bool blocks);
/// One character for each layer: "." none of it is on the device, "1" to "9" tenths, "#" all. More
/// layers than columns share them.
[[nodiscard]] std::string layer_bar(const LiveFigures& figures, std::size_t width);

/// The table of all processes, with its heading, in 80 columns; what `--once` prints.
[[nodiscard]] std::vector<std::string> table(const TopModel& model);

/// A line of the screen.
struct ScreenLine {
  enum class Style { kPlain, kBold, kReverse };
  std::string text;
  Style style = Style::kPlain;
};

/// A key: a printable ASCII character, or one of these.
enum Key : int {
  kNoKey = 0,
  kBackspaceKey = 8,
  kEnterKey = 13,
  kEscapeKey = 27,
  kUpKey = 256,
  kDownKey,
  kPageUpKey,
  kPageDownKey,
  kResizeKey,  ///< the size of the terminal is another one
};

/// What a key asks for beyond what it changes on the screen.
struct KeyResult {
  bool quits = false;
  int pid = 0;         ///< of the process that shall have another budget
  std::string size{};  ///< that budget, as it was typed; empty: none
};

/// What is on the screen beside the model. Pure.
class TopScreen {
 public:
  /// `interval`: for the title, such as "1". `folder`: where processes are looked for. `blocks`:
  /// whether the terminal has Unicode's blocks.
  TopScreen(std::string interval, std::string folder, bool blocks)
      : interval_(std::move(interval)), folder_(std::move(folder)), blocks_(blocks) {}

  /// Takes a key.
  KeyResult press(int key, TopModel& model);
  /// Shows a message on the last line until a key is pressed.
  void say(std::string message) { message_ = std::move(message); }

  /// The lines, at most `height` of at most `width` columns each; in a terminal too small for all
  /// of them those that matter least are left out.
  [[nodiscard]] std::vector<ScreenLine> lines(const TopModel& model, std::size_t width,
                                              std::size_t height) const;

 private:
  [[nodiscard]] std::vector<std::string> details(const TopRow& row, std::size_t width) const;
  [[nodiscard]] std::string last_line() const;
  KeyResult press_in_prompt(int key);

  const std::string interval_;
  const std::string folder_;
  const bool blocks_;
  bool helps_ = false;
  int prompt_pid_ = 0;  ///< whose budget is being typed; 0: nobody's
  std::string typed_;
  std::string message_;
};

}  // namespace superpipe::cli
