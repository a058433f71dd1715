#include "examples/minilm/unicode.h"

#include <algorithm>
#include <cstdint>
#include <iterator>

namespace minilm {
namespace {

struct CodeRange {
  char32_t first;
  char32_t last;
};

struct Folding {
  char32_t code;
  std::uint16_t offset;  // into kFoldedText
  std::uint16_t length;
};

#include "examples/minilm/unicode_tables.inc"

constexpr char32_t kReplacement = 0xFFFD;

// Hangul syllables decompose by arithmetic: The Unicode Standard, section 3.12.
constexpr char32_t kHangulFirst = 0xAC00;
constexpr char32_t kHangulLast = 0xD7A3;
constexpr char32_t kLeadFirst = 0x1100;
constexpr char32_t kVowelFirst = 0x1161;
constexpr char32_t kTailBefore = 0x11A7;
constexpr char32_t kTails = 28;
constexpr char32_t kVowelsAndTails = 21 * kTails;

template <std::size_t kCount>
bool contains(const CodeRange (&ranges)[kCount], char32_t code) {
  const auto* const after =
      std::upper_bound(std::begin(ranges), std::end(ranges), code,
                       [](char32_t value, const CodeRange& range) { return value < range.first; });
  return after != std::begin(ranges) && code <= std::prev(after)->last;
}

/// Length of the UTF-8 sequence that starts with `lead`; 0 where none does.
std::size_t sequence_length(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead < 0xE0) return 2;
  if (lead >= 0xE0 && lead < 0xF0) return 3;
  if (lead >= 0xF0 && lead < 0xF5) return 4;
  return 0;
}

}  // namespace

std::u32string decode_utf8(std::string_view text) {
  constexpr char32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  std::u32string codes;
  codes.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const std::size_t length = sequence_length(lead);
    bool good = length > 0 && i + length <= text.size();
    char32_t code = length == 1 ? lead : lead & (0x7FU >> length);
    for (std::size_t j = 1; good && j < length; ++j) {
      const auto next = static_cast<unsigned char>(text[i + j]);
      good = (next & 0xC0) == 0x80;
      code = (code << 6) | (next & 0x3FU);
    }
    good =
        good && code >= kSmallest[length] && code <= 0x10FFFF && (code < 0xD800 || code > 0xDFFF);
    codes.push_back(good ? code : kReplacement);
    i += good ? length : 1;
  }
  return codes;
}

std::string encode_utf8(std::u32string_view text) {
  std::string bytes;
  bytes.reserve(text.size());
  const auto tail = [&bytes](char32_t code, int shift) {
    bytes.push_back(static_cast<char>(0x80 | ((code >> shift) & 0x3F)));
  };
  for (const char32_t code : text) {
    if (code < 0x80) {
      bytes.push_back(static_cast<char>(code));
    } else if (code < 0x800) {
      bytes.push_back(static_cast<char>(0xC0 | (code >> 6)));
      tail(code, 0);
    } else if (code < 0x10000) {
      bytes.push_back(static_cast<char>(0xE0 | (code >> 12)));
      tail(code, 6);
      tail(code, 0);
    } else {
      bytes.push_back(static_cast<char>(0xF0 | (code >> 18)));
      tail(code, 12);
      tail(code, 6);
      tail(code, 0);
    }
  }
  return bytes;
}

bool is_removed(char32_t code) {
  if (code == '\t' || code == '\n' || code == '\r') return false;
  return code == kReplacement || contains(kRemovedRanges, code);
}

bool is_white_space(char32_t code) {
  return code == '\t' || code == '\n' || code == '\r' || contains(kSpaceRanges, code);
}

bool is_punctuation(char32_t code) {
  const bool ascii_symbol = (code >= 33 && code <= 47) || (code >= 58 && code <= 64) ||
                            (code >= 91 && code <= 96) || (code >= 123 && code <= 126);
  return ascii_symbol || contains(kPunctuationRanges, code);
}

bool is_ideograph(char32_t code) {
  // The blocks that BERT's reference tokenizer treats so.
  constexpr CodeRange kIdeographs[] = {{0x3400, 0x4DBF},   {0x4E00, 0x9FFF},   {0xF900, 0xFAFF},
                                       {0x20000, 0x2A6DF}, {0x2A700, 0x2B73F}, {0x2B740, 0x2B81F},
                                       {0x2B820, 0x2CEAF}, {0x2F800, 0x2FA1F}};
  return contains(kIdeographs, code);
}

void append_folded(char32_t code, std::u32string* text) {
  if (code < 0x80) {
    text->push_back(code >= 'A' && code <= 'Z' ? code + ('a' - 'A') : code);
    return;
  }
  if (code >= kHangulFirst && code <= kHangulLast) {
    const char32_t index = code - kHangulFirst;
    text->push_back(kLeadFirst + index / kVowelsAndTails);
    text->push_back(kVowelFirst + index % kVowelsAndTails / kTails);
    if (index % kTails != 0) text->push_back(kTailBefore + index % kTails);
    return;
  }
  if (contains(kMarkRanges, code)) return;
  const auto* const found =
      std::lower_bound(std::begin(kFoldings), std::end(kFoldings), code,
                       [](const Folding& folding, char32_t value) { return folding.code < value; });
  if (found == std::end(kFoldings) || found->code != code) {
    text->push_back(code);
  } else {
    text->append(kFoldedText + found->offset, found->length);
  }
}

}  // namespace minilm
