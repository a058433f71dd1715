#include "policy/pin_list.h"

#include <algorithm>
#include <charconv>

#include "policy/budget.h"

namespace superpipe {
namespace {

/// One end of an entry.
struct End {
  bool is_size;
  std::uint64_t value;
};

bool is_number(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

std::optional<End> parse_end(std::string_view text) {
  if (is_number(text)) {
    std::uint64_t number = 0;
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || number == 0) return std::nullopt;
    return End{false, number};
  }
  if (!text.empty() && text.back() == 'B' && is_number(text.substr(0, text.size() - 1))) {
    text.remove_suffix(1);
  }
  const auto size = parse_size(text);
  if (!size || size->is_percentage()) return std::nullopt;
  const Bytes bytes = size->resolve(Bytes{});
  if (bytes == Bytes{}) return std::nullopt;
  return End{true, bytes.count()};
}

}  // namespace

std::optional<PinList> PinList::parse(std::string_view text) {
  PinList list;
  for (;;) {
    const std::size_t comma = text.find(',');
    const std::string_view entry = text.substr(0, comma);
    const std::size_t dash = entry.find('-');
    const auto first = parse_end(entry.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : parse_end(entry.substr(dash + 1));
    if (!first || !last || first->is_size != last->is_size || first->value > last->value) {
      return std::nullopt;
    }
    (first->is_size ? list.sizes_ : list.numbers_).push_back({first->value, last->value});
    if (comma == std::string_view::npos) return list;
    text.remove_prefix(comma + 1);
  }
}

bool PinList::includes(const std::vector<Range>& ranges, std::uint64_t value) {
  return std::ranges::any_of(
      ranges, [value](const Range& range) { return range.first <= value && value <= range.last; });
}

bool PinList::includes(std::uint64_t number, Bytes size) const {
  return includes(numbers_, number) || includes(sizes_, size.count());
}

std::string pin_list_text(std::span<const std::uint64_t> numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    if (!text.empty()) text += ',';
    text += std::to_string(numbers[i]);
    if (last > i) text += '-' + std::to_string(numbers[last]);
    i = last + 1;
  }
  return text;
}

}  // namespace superpipe
