#include "tools/simgpu/driver/code/kernel_signature.h"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>
#include <string_view>

namespace simgpu {
namespace {

/// Splits "int, float const*, S<a, b>" at the commas outside of brackets.
std::vector<std::string_view> split_parameters(std::string_view text) {
  std::vector<std::string_view> parts;
  int depth = 0;
  std::size_t start = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '(' || c == '<' || c == '[' || c == '{') {
      ++depth;
    } else if (c == ')' || c == '>' || c == ']' || c == '}') {
      --depth;
    } else if (c == ',' && depth == 0) {
      parts.push_back(text.substr(start, i - start));
      start = i + 1;
    }
  }
  if (start < text.size()) parts.push_back(text.substr(start));
  return parts;
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

}  // namespace

bool is_pointer_to_const(std::string_view type) {
  type = trim(type);
  for (const std::string_view qualifier :
       {" const", " volatile", " restrict", "__restrict", "__restrict__"}) {
    if (type.size() > qualifier.size() && type.ends_with(qualifier)) {
      type = trim(type.substr(0, type.size() - qualifier.size()));
    }
  }
  if (!type.ends_with('*')) return false;
  type = trim(type.substr(0, type.size() - 1));
  return type.ends_with(" const") || type.ends_with(" const volatile");
}

KernelSignature kernel_signature(const std::string& mangled) {
  KernelSignature signature;
  if (!mangled.starts_with("_Z")) return signature;
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> demangled(
      abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status), &std::free);
  if (status != 0 || demangled == nullptr) return signature;
  std::string_view text = demangled.get();
  // The parameters are in the last pair of parentheses; a clone's suffix "[clone .0]" may follow.
  const std::size_t end = text.rfind(')');
  if (end == std::string_view::npos) return signature;
  int depth = 0;
  std::size_t begin = end;
  for (;; --begin) {
    depth += text[begin] == ')' ? 1 : text[begin] == '(' ? -1 : 0;
    if (depth == 0) break;
    if (begin == 0) return signature;
  }
  signature.name = text.substr(0, begin);
  for (const std::string_view type : split_parameters(text.substr(begin + 1, end - begin - 1))) {
    signature.parameters.emplace_back(trim(type));
  }
  return signature;
}

}  // namespace simgpu
