#include "profiler/kernel_names.h"

#include <cstddef>

namespace superpipe {
namespace {

constexpr std::size_t kLongestName = 100;
constexpr std::size_t kLongestInBrackets = 32;

bool begins_brackets(char character) { return character == '<' || character == '('; }
bool ends_brackets(char character) { return character == '>' || character == ')'; }

/// Where the bracket at `begin` is closed; npos: nowhere.
std::size_t end_of_brackets(std::string_view name, std::size_t begin) {
  int depth = 0;
  for (std::size_t at = begin; at < name.size(); ++at) {
    if (begins_brackets(name[at])) ++depth;
    if (ends_brackets(name[at]) && --depth == 0) return at;
  }
  return std::string_view::npos;
}

}  // namespace

std::string short_kernel_name(std::string_view name) {
  std::string text;
  for (std::size_t at = 0; at < name.size(); ++at) {
    text += name[at];
    if (!begins_brackets(name[at])) continue;
    const std::size_t end = end_of_brackets(name, at);
    if (end == std::string_view::npos || end - at - 1 <= kLongestInBrackets) continue;
    text += "...";
    at = end - 1;
  }
  if (text.size() > kLongestName) text.replace(kLongestName - 3, std::string::npos, "...");
  return text;
}

}  // namespace superpipe
