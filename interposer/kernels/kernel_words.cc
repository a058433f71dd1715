#include "interposer/kernels/kernel_words.h"

#include <cxxabi.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <memory>
#include <optional>
#include <system_error>

namespace superpipe {
namespace {

using Count = KnownStruct::Count;

constexpr KnownStruct kKnownStructs[] = {
#include "interposer/kernels/kernel_words.inc"
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

/// What `type` is a pointer to, without that type's qualifiers; nullopt if it is none.
std::optional<std::string_view> pointed_to_by(std::string_view type) {
  if (!type.ends_with('*')) return std::nullopt;
  type.remove_suffix(1);
  for (bool stripped = true; stripped;) {
    stripped = false;
    for (const std::string_view qualifier : {" const", " volatile", " __restrict"}) {
      if (!type.ends_with(qualifier)) continue;
      type.remove_suffix(qualifier.size());
      stripped = true;
    }
  }
  return type;
}

}  // namespace

bool is_of_pytorch(std::string_view mangled) {
  // Of namespace at, and what PyTorch compiles of others' attention, with parameters of its own.
  constexpr std::string_view kOwn = "_ZN2at";
  constexpr std::string_view kOthers[] = {"13pytorch_flash", "22PyTorchMemEffAttention"};
  return mangled.starts_with(kOwn) ||
         std::ranges::any_of(kOthers, [mangled](std::string_view name) {
           return mangled.find(name) != std::string_view::npos;
         });
}

const KnownStruct* known_struct(std::string_view type, std::size_t bytes) {
  for (const KnownStruct& known : kKnownStructs) {
    if (bytes >= known.smallest && bytes <= known.largest && type.starts_with(known.type)) {
      return &known;
    }
  }
  return nullptr;
}

bool has_words_of_version(std::string_view version) {
  constexpr std::string_view kMajor = "2.";
  constexpr int kFirst = 9;
  constexpr int kLast = 15;
  if (!version.starts_with(kMajor)) return false;
  version.remove_prefix(kMajor.size());
  int minor = 0;
  const char* const end = version.data() + version.size();
  const auto parsed = std::from_chars(version.data(), end, minor);
  const bool has_dot = parsed.ptr != end && *parsed.ptr == '.';
  return parsed.ec == std::errc{} && has_dot && minor >= kFirst && minor <= kLast;
}

bool is_pointer(std::string_view type) { return pointed_to_by(type).has_value(); }

bool is_array_of_pointers(std::string_view type) {
  const auto element = pointed_to_by(type);
  return element && is_pointer(*element);
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
