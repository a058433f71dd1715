#include "examples/options.h"

#include <algorithm>
#include <charconv>

namespace examples {

Options::Options(int argc, const char* const* argv, std::span<const OptionSpec> known) {
  bool options_ended = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (options_ended || word.size() < 2 || word[0] != '-') {
      positional_.emplace_back(word);
      continue;
    }
    if (word == "--") {
      options_ended = true;
      continue;
    }
    const std::size_t equals = word.find('=');
    const std::string_view name = word.substr(0, equals);
    const auto spec = std::find_if(known.begin(), known.end(), [name](const OptionSpec& option) {
      return option.name == name;
    });
    if (spec == known.end()) {
      throw UsageError("unknown option '" + std::string(name) + "'; see --help");
    }
    std::string value;
    if (equals != std::string_view::npos) {
      if (!spec->takes_value) throw UsageError(std::string(name) + " takes no value");
      value = word.substr(equals + 1);
    } else if (spec->takes_value) {
      if (i + 1 == argc) throw UsageError(std::string(name) + " needs a value; see --help");
      value = argv[++i];
    }
    values_[std::string(name)] = std::move(value);
  }
}

bool Options::has(std::string_view name) const { return values_.find(name) != values_.end(); }

std::string Options::text(std::string_view name, std::string_view fallback) const {
  const auto found = values_.find(name);
  return found == values_.end() ? std::string(fallback) : found->second;
}

std::uint64_t Options::count(std::string_view name, std::uint64_t fallback, std::uint64_t least,
                             std::uint64_t most) const {
  const auto found = values_.find(name);
  if (found == values_.end()) return fallback;
  const std::string& text = found->second;
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least || value > most) {
    throw UsageError(std::string(name) + " is '" + text + "', must be a whole number from " +
                     std::to_string(least) + " to " + std::to_string(most));
  }
  return value;
}

std::string Options::choice(std::string_view name,
                            std::span<const std::string_view> allowed) const {
  std::string value = text(name, allowed.front());
  if (std::find(allowed.begin(), allowed.end(), value) != allowed.end()) return value;
  std::string list;
  for (const std::string_view one : allowed) {
    if (!list.empty()) list += ", ";
    list += one;
  }
  throw UsageError(std::string(name) + " is '" + value + "', must be one of: " + list);
}

}  // namespace examples
