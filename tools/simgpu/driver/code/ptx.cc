#include "tools/simgpu/driver/code/ptx.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <optional>
#include <set>
#include <string>
#include <utility>

namespace simgpu {
namespace {

constexpr std::uint64_t kMaxAlignment = 4096;

/// Thrown inside this file only, and caught in read_ptx(): the text is malformed.
struct Malformed {
  std::string reason;
};

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '$' || c == '%' || c == '.';
}

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f'; }

/// Splits PTX into words, strings and single punctuation characters; skips blanks and comments.
class Tokens {
 public:
  explicit Tokens(std::string_view text) : text_(text) { advance(); }

  /// The current token; empty at the end.
  [[nodiscard]] std::string_view peek() const { return token_; }
  [[nodiscard]] bool done() const { return token_.empty(); }

  std::string_view next() {
    const std::string_view token = token_;
    if (token.empty()) throw Malformed{"ends too early"};
    advance();
    return token;
  }

  /// Takes the current token if it is `expected`.
  bool accept(std::string_view expected) {
    if (token_ != expected) return false;
    advance();
    return true;
  }

  void expect(std::string_view expected) {
    if (!accept(expected)) {
      throw Malformed{"expected '" + std::string(expected) + "', found '" + std::string(token_) +
                      "'"};
    }
  }

 private:
  void skip_blanks() {
    while (at_ < text_.size()) {
      if (is_space(text_[at_])) {
        ++at_;
      } else if (text_.substr(at_, 2) == "//") {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (text_.substr(at_, 2) == "/*") {
        const std::size_t end = text_.find("*/", at_ + 2);
        if (end == std::string_view::npos) throw Malformed{"comment without end"};
        at_ = end + 2;
      } else {
        return;
      }
    }
  }

  void advance() {
    skip_blanks();
    const std::size_t begin = at_;
    if (at_ == text_.size()) {
      token_ = {};
      return;
    }
    if (text_[at_] == '"') {
      const std::size_t end = text_.find('"', at_ + 1);
      if (end == std::string_view::npos) throw Malformed{"string without end"};
      at_ = end + 1;
    } else if (is_word(text_[at_])) {
      while (at_ < text_.size() && is_word(text_[at_])) ++at_;
    } else {
      ++at_;
    }
    token_ = text_.substr(begin, at_ - begin);
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::string_view token_;
};

/// An integer literal: decimal, octal, 0x or 0b, with an optional U.
std::optional<std::uint64_t> integer(std::string_view word) {
  if (!word.empty() && (word.back() == 'U' || word.back() == 'u')) word.remove_suffix(1);
  int base = 10;
  if (word.starts_with("0x") || word.starts_with("0X")) {
    base = 16;
    word.remove_prefix(2);
  } else if (word.starts_with("0b") || word.starts_with("0B")) {
    base = 2;
    word.remove_prefix(2);
  } else if (word.size() > 1 && word.front() == '0') {
    base = 8;
  }
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value, base);
  if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return value;
}

std::uint64_t take_integer(Tokens& tokens) {
  const std::string_view word = tokens.next();
  const auto value = integer(word);
  if (!value) throw Malformed{"expected a number, found '" + std::string(word) + "'"};
  return *value;
}

/// The size in bytes of a fundamental type such as `.u64` or `.f16x2`; 0 if it is none.
std::uint64_t type_size(std::string_view type) {
  if (type == ".pred") return 1;
  if (type == ".texref" || type == ".samplerref" || type == ".surfref") return 8;
  if (type.size() < 3 || type[0] != '.') return 0;
  type.remove_prefix(type.starts_with(".bf") ? 3 : 2);
  std::uint64_t lanes = 1;
  if (const std::size_t cross = type.find('x'); cross != std::string_view::npos) {
    lanes = integer(type.substr(cross + 1)).value_or(0);
    type = type.substr(0, cross);
  }
  const std::uint64_t bits = integer(type).value_or(0);
  constexpr std::array<std::uint64_t, 5> kWidths = {8, 16, 32, 64, 128};
  const bool known = std::find(kWidths.begin(), kWidths.end(), bits) != kWidths.end();
  return known && (lanes == 1 || lanes == 2 || lanes == 4) ? bits / 8 * lanes : 0;
}

/// A declared variable or parameter.
struct Declaration {
  std::string_view name;
  std::uint64_t element = 0;    ///< bytes of one element
  std::uint64_t count = 1;      ///< 0: an array whose initialiser tells
  std::uint64_t alignment = 0;  ///< bytes
};

std::uint64_t take_alignment(Tokens& tokens) {
  const std::uint64_t alignment = take_integer(tokens);
  if (alignment == 0 || alignment > kMaxAlignment || (alignment & (alignment - 1)) != 0) {
    throw Malformed{"impossible alignment"};
  }
  return alignment;
}

/// Reads what follows a state space: `.align 8 .b8 name[16]`, `.u64 .ptr .global .align 4 name`.
Declaration take_declaration(Tokens& tokens) {
  Declaration declaration;
  std::uint64_t lanes = 1;
  bool pointer = false;
  while (!tokens.done() && tokens.peek().front() == '.') {
    const std::string_view word = tokens.next();
    if (word == ".align") {
      const std::uint64_t alignment = take_alignment(tokens);
      if (!pointer) declaration.alignment = alignment;  // behind .ptr it is the pointee's
    } else if (word == ".ptr") {
      pointer = true;
    } else if (word == ".v2" || word == ".v4") {
      lanes = word == ".v2" ? 2 : 4;
    } else if (word == ".attribute") {
      while (tokens.next() != ")") {
      }
    } else if (const std::uint64_t size = type_size(word); size != 0) {
      declaration.element = size;
    }
  }
  if (declaration.element == 0) throw Malformed{"declaration without a type"};
  declaration.element *= lanes;
  declaration.name = tokens.next();
  if (!is_word(declaration.name.front())) throw Malformed{"declaration without a name"};
  while (tokens.accept("[")) {
    const bool open = tokens.accept("]");
    const std::uint64_t extent = open ? 0 : take_integer(tokens);
    if (!open) tokens.expect("]");
    if (extent > kMaxDataBytes || declaration.count * extent > kMaxDataBytes) {
      throw Malformed{"impossibly large array"};
    }
    declaration.count *= extent;
  }
  if (declaration.alignment == 0) declaration.alignment = declaration.element;
  return declaration;
}

std::uint64_t align_up(std::uint64_t value, std::uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

std::vector<ParameterLayout> take_parameters(Tokens& tokens) {
  std::vector<ParameterLayout> parameters;
  std::uint64_t end = 0;
  if (!tokens.accept("(") || tokens.accept(")")) return parameters;
  do {
    tokens.expect(".param");
    const Declaration declaration = take_declaration(tokens);
    const std::uint64_t size = declaration.element * declaration.count;
    const std::uint64_t offset = align_up(end, declaration.alignment);
    if (size == 0 || size > kMaxParameterBytes || offset + size > kMaxParameterBytes) {
      throw Malformed{"impossible parameter size"};
    }
    parameters.push_back({offset, size});
    end = offset + size;
  } while (tokens.accept(","));
  tokens.expect(")");
  return parameters;
}

/// Skips a body `{ ... }`, adding up its shared variables.
void skip_body(Tokens& tokens, KernelImage& kernel) {
  tokens.expect("{");
  std::uint64_t shared = 0;
  for (int depth = 1; depth > 0;) {
    const std::string_view word = tokens.next();
    if (word == "{") {
      ++depth;
    } else if (word == "}") {
      --depth;
    } else if (word == ".shared") {
      const Declaration declaration = take_declaration(tokens);
      shared = align_up(shared, declaration.alignment) + declaration.element * declaration.count;
      if (shared > kMaxDataBytes) throw Malformed{"impossibly large shared memory"};
    }
  }
  kernel.static_shared_bytes = shared;
}

/// Reads from behind `.entry` to the end of its body. @return nullopt for a mere declaration.
std::optional<KernelImage> take_kernel(Tokens& tokens) {
  KernelImage kernel;
  kernel.name = tokens.next();
  if (!is_word(kernel.name.front())) throw Malformed{".entry without a name"};
  kernel.parameters = take_parameters(tokens);
  while (tokens.peek() != "{") {
    const std::string_view word = tokens.next();
    if (word == ";") return std::nullopt;
    if (word == ".maxntid" || word == ".reqntid") {
      std::uint64_t threads = 1;
      do {
        threads = std::min<std::uint64_t>(
            threads * std::min<std::uint64_t>(take_integer(tokens), 1 << 20), 1 << 20);
      } while (tokens.accept(","));
      kernel.max_threads = static_cast<int>(threads);
    }
  }
  skip_body(tokens, kernel);
  return kernel;
}

/// The bytes of one number of an initialiser, or nullopt if it is no number (an address).
std::optional<std::array<std::byte, 8>> literal(std::string_view word, bool negative) {
  std::uint64_t value = 0;
  if (word.size() == 10 && (word.starts_with("0f") || word.starts_with("0F"))) {
    const auto bits = integer("0x" + std::string(word.substr(2)));
    if (!bits) return std::nullopt;
    value = negative ? *bits ^ (std::uint64_t{1} << 31) : *bits;
  } else if (word.size() == 18 && (word.starts_with("0d") || word.starts_with("0D"))) {
    const auto bits = integer("0x" + std::string(word.substr(2)));
    if (!bits) return std::nullopt;
    value = negative ? *bits ^ (std::uint64_t{1} << 63) : *bits;
  } else if (const auto number = integer(word); number) {
    value = negative ? 0 - *number : *number;
  } else {
    return std::nullopt;
  }
  std::array<std::byte, 8> bytes;
  std::memcpy(bytes.data(), &value, bytes.size());
  return bytes;
}

/// Reads an initialiser up to the `;` behind it: a number, or nested lists of numbers.
std::vector<std::byte> take_initialiser(Tokens& tokens, std::uint64_t element) {
  std::vector<std::byte> bytes;
  bool negative = false;
  int parentheses = 0;
  bool pending = false;  // an element that is not a plain number, e.g. generic(name)+4
  const auto flush = [&] {
    if (pending) {
      bytes.insert(bytes.end(), element, std::byte{0});
      pending = false;
    }
  };
  while (tokens.peek() != ";") {
    const std::string_view word = tokens.next();
    if (word == "(" || word == ")") {
      parentheses += word == "(" ? 1 : -1;
      pending = true;
    } else if (word == "{" || word == "}" || (word == "," && parentheses == 0)) {
      flush();
      negative = false;
    } else if (word == "-" && !pending) {
      negative = !negative;
    } else if (const auto value = literal(word, negative); value && !pending && element <= 8) {
      bytes.insert(bytes.end(), value->begin(), value->begin() + static_cast<long>(element));
      negative = false;
    } else {
      pending = true;
    }
  }
  flush();
  return bytes;
}

void take_variable(Tokens& tokens, bool external, std::set<std::string>& seen, ModuleImage& image) {
  const Declaration declaration = take_declaration(tokens);
  std::vector<std::byte> initial;
  if (tokens.accept("=")) initial = take_initialiser(tokens, declaration.element);
  tokens.expect(";");
  const std::uint64_t size =
      declaration.count == 0 ? initial.size() : declaration.element * declaration.count;
  if (external || size == 0 || !seen.insert(std::string(declaration.name)).second) return;
  const std::uint64_t offset =
      align_up(image.data_bytes, std::max(kDataAlignment, declaration.alignment));
  if (size > kMaxDataBytes || offset + size > kMaxDataBytes) {
    throw Malformed{"impossibly large variables"};
  }
  if (initial.size() > size) throw Malformed{"more initial values than elements"};
  image.globals.push_back({std::string(declaration.name), offset, size});
  image.data_bytes = offset + size;
  if (!initial.empty()) image.initial.push_back({offset, std::move(initial)});
}

void skip_function(Tokens& tokens) {
  // From behind `.func` to the end of its body, or of its declaration.
  while (tokens.peek() != "{" && tokens.peek() != ";") tokens.next();
  if (tokens.peek() == "{") {
    KernelImage ignored;
    skip_body(tokens, ignored);
  }
}

ModuleImage read(std::string_view text) {
  Tokens tokens(text);
  ModuleImage image;
  std::set<std::string> kernels;
  std::set<std::string> variables;
  bool versioned = false;
  bool external = false;
  while (!tokens.done()) {
    const std::string_view word = tokens.next();
    if (word == ".version") {
      versioned = true;
      tokens.next();
    } else if (!versioned) {
      throw Malformed{"does not begin with .version"};
    } else if (word == ".extern") {
      external = true;
      continue;
    } else if (word == ".entry") {
      auto kernel = take_kernel(tokens);
      if (kernel && kernels.insert(kernel->name).second) {
        image.kernels.push_back(*std::move(kernel));
      }
    } else if (word == ".func") {
      skip_function(tokens);
    } else if (word == ".global" || word == ".const") {
      take_variable(tokens, external, variables, image);
    } else if (word == "{") {  // a .section of debug data
      for (int depth = 1; depth > 0;) {
        const std::string_view inner = tokens.next();
        depth += inner == "{" ? 1 : inner == "}" ? -1 : 0;
      }
    } else if (word == ".visible" || word == ".weak" || word == ".common") {
      continue;  // keeps a preceding .extern
    }
    external = false;
  }
  if (!versioned) throw Malformed{"is empty"};
  return image;
}

}  // namespace

ImageResult read_ptx(std::string_view text) {
  try {
    return read(text);
  } catch (const Malformed& malformed) {
    return ImageRefusal{ImageError::kInvalidPtx, "PTX: " + malformed.reason};
  }
}

}  // namespace simgpu
