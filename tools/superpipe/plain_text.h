// Text of others that is to be shown on a terminal.
#pragma once

#include <algorithm>
#include <string>

namespace superpipe::cli {

/// `text` with a question mark for each byte that is no printable ASCII character: what others
/// chose does not steer the terminal. Pure.
[[nodiscard]] inline std::string plain_text(std::string text) {
  std::ranges::replace_if(
      text, [](char c) { return c < ' ' || c > '~'; }, '?');
  return text;
}

}  // namespace superpipe::cli
