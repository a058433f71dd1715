// The terminal, by ncurses.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "tools/superpipe/top_screen.h"

namespace superpipe::cli {

/// A full-screen terminal, which is as it was before once this is destroyed. One at a time, for one
/// thread; a signal has to end the program by way of the destructor.
///
/// Needs no colour, and of the terminal no more than to place the cursor. Stopping (Ctrl-Z) and
/// going on restore the terminal and the screen.
class Terminal {
 public:
  /// Takes standard output and input. @return null if that is no terminal that ncurses knows:
  /// `problem` then says why.
  static std::unique_ptr<Terminal> open(std::string& problem);
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  [[nodiscard]] std::size_t width() const;
  [[nodiscard]] std::size_t height() const;
  /// Whether it shows Unicode: by the locale.
  [[nodiscard]] bool has_blocks() const { return has_blocks_; }

  /// Shows `lines`, and nothing else.
  void draw(const std::vector<ScreenLine>& lines);
  /// Waits for a key (see Key), at most `limit`. @return kNoKey if there was none, or a signal
  /// came.
  int read_key(std::chrono::milliseconds limit);

 private:
  explicit Terminal(bool has_blocks) : has_blocks_(has_blocks) {}

  const bool has_blocks_;
};

}  // namespace superpipe::cli
