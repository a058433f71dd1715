#include "interposer/kernel_words.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

namespace superpipe {
namespace {

using Count = KnownStruct::Count;

constexpr KnownStruct kKnownStructs[] = {
#include "interposer/kernel_words.inc"
};

bool opens(char character) {
  return character == '(' || character == '<' || character == '[' || character == '{';
}
bool closes(char character) {
  return character == ')' || character == '>' || character == ']' || character == '}';
}

/// Where the parameter list that ends with `text` begins: behind the bracket that the last one of
/// `text` closes. npos if there is none.
std::size_t begin_of_parameters(std::string_view text) {
  int depth = 0;
  for (std::size_t at = text.size(); at-- > 0;) {
    if (text[at] == ')') ++depth;
    if (text[at] == '(' && --depth == 0) return at + 1;
  }
  return std::string_view::npos;
}

}  // namespace

const KnownStruct* known_struct(std::string_view type, std::size_t bytes) {
  for (const KnownStruct& known : kKnownStructs) {
    if (bytes >= known.smallest && bytes <= known.largest && type.starts_with(known.type)) {
      return &known;
    }
  }
  return nullptr;
}

std::vector<std::string> parameter_types(const std::string& mangled) {
  if (!mangled.starts_with("_Z")) return {};
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> demangled(
      abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status), &std::free);
  if (status != 0 || demangled == nullptr) return {};
  std::string_view text = demangled.get();
  text = text.substr(0, text.rfind(')') + 1);  // a clone's name has a suffix
  const std::size_t begin = begin_of_parameters(text);
  if (begin == std::string_view::npos) return {};
  text = text.substr(begin, text.size() - 1 - begin);

  std::vector<std::string> types;
  int depth = 0;
  std::size_t start = 0;
  for (std::size_t at = 0; at <= text.size(); ++at) {
    if (at < text.size()) {
      if (opens(text[at])) ++depth;
      if (closes(text[at])) --depth;
      if (text[at] != ',' || depth > 0) continue;
    }
    std::string_view type = text.substr(start, at - start);
    type.remove_prefix(std::min(type.find_first_not_of(' '), type.size()));
    if (!type.empty()) types.emplace_back(type);
    start = at + 1;
  }
  return types;
}

}  // namespace superpipe
