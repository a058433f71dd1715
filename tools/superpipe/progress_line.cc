#include "tools/superpipe/progress_line.h"

#include <unistd.h>

#include <iostream>
#include <utility>

#include "tools/superpipe/plain_text.h"

namespace superpipe::cli {

ProgressLine::ProgressLine(std::string subcommand, bool wanted)
    : subcommand_(std::move(subcommand)), is_shown_(wanted && ::isatty(STDERR_FILENO) == 1) {}

void ProgressLine::begin(const std::string& what) {
  if (!is_shown_) return;
  std::cerr << "\r\033[Ksuperpipe " << subcommand_ << ": " << plain_text(what) << std::flush;
  last_ = std::chrono::steady_clock::now();
}

void ProgressLine::say(const std::string& what) {
  constexpr std::chrono::milliseconds kBetween{100};
  if (!last_ || std::chrono::steady_clock::now() - *last_ >= kBetween) begin(what);
}

void ProgressLine::clear() {
  if (last_) std::cerr << "\r\033[K" << std::flush;
  last_.reset();
}

}  // namespace superpipe::cli
