#include "tools/superpipe/output_comparison.h"

#include <algorithm>
#include <utility>

namespace superpipe::cli {
namespace {

constexpr std::string_view kMark = "<time>";

constexpr std::array<std::string_view, 20> kTimeUnits = {
    "ns",      "us",  "\xC2\xB5s", "\xCE\xBCs", "ms",      "msec", "s",     "sec", "secs", "second",
    "seconds", "min", "mins",      "minute",    "minutes", "hour", "hours", "h",   "days", "day"};

bool is_digit(char letter) { return letter >= '0' && letter <= '9'; }

// Letters of other alphabets are bytes above 127: that of microseconds is one.
bool is_letter(char letter) {
  return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
         static_cast<unsigned char>(letter) >= 0x80;
}

template <typename Is>
std::size_t skip(std::string_view text, std::size_t from, Is&& is) {
  while (from < text.size() && is(text[from])) ++from;
  return from;
}

bool is_time_unit(std::string_view word) {
  return std::find(kTimeUnits.begin(), kTimeUnits.end(), word) != kTimeUnits.end();
}

// Where the fraction of a number ends whose digits end at `from`.
std::size_t end_of_fraction(std::string_view text, std::size_t from) {
  if (from + 1 < text.size() && text[from] == '.' && is_digit(text[from + 1])) {
    from = skip(text, from + 1, is_digit);
  }
  if (from >= text.size() || (text[from] != 'e' && text[from] != 'E')) return from;
  std::size_t digits = from + 1;
  if (digits < text.size() && (text[digits] == '-' || text[digits] == '+')) ++digits;
  const std::size_t end = skip(text, digits, is_digit);
  return end > digits ? end : from;
}

// Where a clock ends whose first digits end at `from`; `from`: it is none.
std::size_t end_of_clock(std::string_view text, std::size_t from) {
  std::size_t end = from;
  while (end + 2 < text.size() && text[end] == ':' && is_digit(text[end + 1]) &&
         is_digit(text[end + 2])) {
    end += 3;
  }
  return end == from ? from : end_of_fraction(text, end);
}

// Where the time or rate ends that begins with the digit at `begin`; nullopt: it is another number.
std::optional<std::size_t> end_of_time(std::string_view text, std::size_t begin) {
  const std::size_t digits = skip(text, begin, is_digit);
  if (const std::size_t clock = end_of_clock(text, digits); clock > digits) return clock;
  const std::size_t number = end_of_fraction(text, digits);
  const std::size_t word = skip(text, number, [](char letter) { return letter == ' '; });
  const std::size_t end = skip(text, word, is_letter);
  const auto ends_there = [&](std::size_t at) { return at >= text.size() || !is_digit(text[at]); };
  if (is_time_unit(text.substr(word, end - word)) && ends_there(end)) return end;
  if (end >= text.size() || text[end] != '/') return std::nullopt;
  const std::size_t per = skip(text, end + 1, is_letter);
  const bool is_rate = is_time_unit(text.substr(end + 1, per - end - 1)) && ends_there(per);
  return is_rate ? std::optional(per) : std::nullopt;
}

}  // namespace

std::string_view name_of(OutputRule rule) {
  switch (rule) {
    case OutputRule::kLines:
      return "lines";
    case OutputRule::kNoTimes:
      return "no-times";
    case OutputRule::kIgnore:
      return "ignore";
  }
  return "";
}

std::optional<OutputRule> output_rule_named(std::string_view name) {
  for (const OutputRule rule : kOutputRules) {
    if (name_of(rule) == name) return rule;
  }
  return std::nullopt;
}

std::string without_times(std::string_view line) {
  std::string text;
  for (std::size_t at = 0; at < line.size();) {
    if (!is_digit(line[at])) {
      text += line[at++];
      continue;
    }
    // What is part of a name or of a longer number is no number of its own.
    const bool is_inside =
        at > 0 && (is_letter(line[at - 1]) || line[at - 1] == '_' || line[at - 1] == '.');
    const auto time = is_inside ? std::nullopt : end_of_time(line, at);
    const std::size_t end = time.value_or(skip(line, at, is_digit));
    text += time ? kMark : line.substr(at, end - at);
    at = end;
  }
  return text;
}

OutputBaseline::OutputBaseline(std::vector<std::string> first, OutputRule rule)
    : first_(std::move(first)), rule_(rule), varies_(first_.size(), false) {}

bool OutputBaseline::are_same(std::size_t line, const std::string& other) const {
  if (first_[line] == other) return true;
  return rule_ == OutputRule::kNoTimes && without_times(first_[line]) == without_times(other);
}

void OutputBaseline::add(const std::vector<std::string>& output) {
  if (rule_ == OutputRule::kIgnore) return;
  for (std::size_t i = 0; i < varies_.size(); ++i) {
    if (output.size() != varies_.size() || !are_same(i, output[i])) varies_[i] = true;
  }
}

std::size_t OutputBaseline::varying() const {
  return static_cast<std::size_t>(std::count(varies_.begin(), varies_.end(), true));
}

std::vector<std::size_t> OutputBaseline::differing(const std::vector<std::string>& output) const {
  std::vector<std::size_t> lines;
  if (rule_ == OutputRule::kIgnore) return lines;
  for (std::size_t i = 0; i < std::max(first_.size(), output.size()); ++i) {
    if (i < first_.size() && varies_[i]) continue;
    // Where nothing but lines that vary is left, there may be more or fewer of these.
    if (i >= first_.size() && varying() == first_.size() && !first_.empty()) break;
    if (i >= first_.size() || i >= output.size() || !are_same(i, output[i])) lines.push_back(i);
  }
  return lines;
}

}  // namespace superpipe::cli
