// What the tokenizer needs of Unicode.
#pragma once

#include <string>
#include <string_view>

namespace minilm {

/// The code points of `text`; what is not valid UTF-8 becomes U+FFFD, one for each bad byte.
std::u32string decode_utf8(std::string_view text);

/// `text` as UTF-8. REQUIRES: code points are at most U+10FFFF.
std::string encode_utf8(std::u32string_view text);

/// Whether the code point is dropped from a text: controls, formats, unassigned, private use
/// (category C*), but not tab, line feed and carriage return, which are white space.
bool is_removed(char32_t code);

/// Whether the code point is white space: category Zs, tab, line feed, carriage return.
bool is_white_space(char32_t code);

/// Whether the code point is a word of its own: category P*, or an ASCII symbol.
bool is_punctuation(char32_t code);

/// Whether the code point is a Chinese, Japanese or Korean ideograph, which is a word of its own.
bool is_ideograph(char32_t code);

/// Appends `code` in lower case, decomposed (NFD), without its non-spacing marks, to `text`;
/// nothing where it is itself such a mark.
void append_folded(char32_t code, std::u32string* text);

}  // namespace minilm
