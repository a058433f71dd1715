// Text of others that is to be shown on a terminal.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

namespace superpipe::cli {

/// `text` with a question mark for each byte that is no printable ASCII character: what others
/// chose does not steer the terminal. Pure.
[[nodiscard]] inline std::string plain_text(std::string text) {
  std::ranges::replace_if(
      text, [](char c) { return c < ' ' || c > '~'; }, '?');
  return text;
}

/// The same of at most `most` characters, 3 at least: what is cut off is an ellipsis in its place.
/// Pure.
[[nodiscard]] inline std::string shortened(std::string text, std::size_t most) {
  if (text.size() > most) text.replace(most - 3, std::string::npos, "...");
  return plain_text(std::move(text));
}

}  // namespace superpipe::cli
