#include "policy/budget.h"

#include <array>
#include <cctype>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace superpipe {
namespace {

constexpr std::uint64_t kMaxCount = std::numeric_limits<std::uint64_t>::max();
// More digits than this say nothing about a byte count.
constexpr std::size_t kMaxFractionDigits = 15;

struct Decimal {
  std::uint64_t whole = 0;
  std::uint64_t fraction = 0;  // of `scale`
  std::uint64_t scale = 1;
  bool has_point = false;
};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Takes a decimal number off the front of `text`.
std::optional<Decimal> take_decimal(std::string_view& text) {
  Decimal number;
  std::size_t at = 0;
  while (at < text.size() && is_digit(text[at])) {
    const auto digit = static_cast<std::uint64_t>(text[at] - '0');
    if (number.whole > (kMaxCount - digit) / 10) return std::nullopt;
    number.whole = number.whole * 10 + digit;
    ++at;
  }
  if (at == 0) return std::nullopt;
  if (at < text.size() && text[at] == '.') {
    number.has_point = true;
    const std::size_t first = ++at;
    while (at < text.size() && is_digit(text[at])) {
      if (at - first == kMaxFractionDigits) return std::nullopt;
      number.fraction = number.fraction * 10 + static_cast<std::uint64_t>(text[at] - '0');
      number.scale *= 10;
      ++at;
    }
    if (at == first) return std::nullopt;
  }
  text.remove_prefix(at);
  return number;
}

// The factor of a unit suffix; 1 for none.
std::optional<std::uint64_t> unit_of(std::string_view suffix) {
  if (suffix.empty()) return 1;
  constexpr std::string_view kPrefixes = "KMGT";
  const char prefix = static_cast<char>(std::toupper(static_cast<unsigned char>(suffix.front())));
  const std::size_t power = kPrefixes.find(prefix);
  if (power == std::string_view::npos) return std::nullopt;
  suffix.remove_prefix(1);
  const bool binary = suffix.size() == 2 && (suffix[0] == 'i' || suffix[0] == 'I') &&
                      (suffix[1] == 'B' || suffix[1] == 'b');
  if (!suffix.empty() && !binary) return std::nullopt;
  return std::uint64_t{1} << (10 * (power + 1));
}

}  // namespace

Bytes SizeSpec::resolve(Bytes whole) const {
  if (!is_percentage()) return bytes_;
  const long double share = static_cast<long double>(percent_) / 100.0L;
  return Bytes{static_cast<std::uint64_t>(static_cast<long double>(whole.count()) * share)};
}

std::optional<SizeSpec> parse_size(std::string_view text) {
  const auto number = take_decimal(text);
  if (!number) return std::nullopt;
  if (text == "%") {
    const double percent =
        static_cast<double>(number->whole) +
        static_cast<double>(number->fraction) / static_cast<double>(number->scale);
    if (percent <= 0.0 || percent > 100.0) return std::nullopt;
    return SizeSpec::of_percent(percent);
  }
  const auto unit = unit_of(text);
  if (!unit) return std::nullopt;
  if (number->has_point && *unit == 1) return std::nullopt;
  if (number->whole > kMaxCount / *unit) return std::nullopt;
  const std::uint64_t whole = number->whole * *unit;
  const auto fraction = static_cast<std::uint64_t>(static_cast<long double>(number->fraction) *
                                                   static_cast<long double>(*unit) /
                                                   static_cast<long double>(number->scale));
  if (whole > kMaxCount - fraction) return std::nullopt;
  return SizeSpec::of_bytes(Bytes{whole + fraction});
}

std::optional<Bytes> parse_size(std::string_view text, Bytes whole) {
  const auto size = parse_size(text);
  if (!size) return std::nullopt;
  return size->resolve(whole);
}

std::string format_bytes(Bytes size) {
  constexpr std::array<std::string_view, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<long double>(size.count());
  std::size_t unit = 0;
  // 1023.95 KiB would round to 1024 KiB: it is 1 MiB.
  while (unit + 1 < kUnits.size() && value >= (unit == 0 ? 1024.0L : 1023.95L)) {
    value /= 1024.0L;
    ++unit;
  }
  const auto tenths = static_cast<std::uint64_t>(std::floor(value * 10.0L + 0.5L));
  std::string text = std::to_string(tenths / 10);
  if (tenths % 10 != 0) {
    text += '.';
    text += static_cast<char>('0' + static_cast<char>(tenths % 10));
  }
  text += ' ';
  text += kUnits[unit];
  return text;
}

std::string exact_bytes(Bytes size) {
  return std::to_string(size.count()) + " bytes (" + format_bytes(size) + ")";
}

}  // namespace superpipe
