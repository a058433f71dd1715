// JSON, piece by piece: what is too long to be held as one value.
#pragma once

#include <string>
#include <string_view>

namespace superpipe::cli {

/// `text` as a JSON string, with its quotes; bytes that are not UTF-8 become U+FFFD. Pure.
[[nodiscard]] std::string json_text(std::string_view text);

}  // namespace superpipe::cli
