#include "tools/simgpu/driver/code/kernel_words.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <optional>
#include <string_view>

#include "tools/simgpu/driver/code/kernel_signature.h"

namespace simgpu {
namespace {

constexpr std::size_t kAddressBytes = sizeof(std::uint64_t);

using Count = KernelWords::Count;
using WordRole = KernelWords::WordRole;

constexpr KernelWords::StructRule kRules[] = {
#include "tools/simgpu/driver/code/kernel_words.inc"
};

const KernelWords::StructRule* rule_for(std::string_view type, std::size_t size) {
  for (const KernelWords::StructRule& rule : kRules) {
    if (size >= rule.smallest && size <= rule.largest && type.starts_with(rule.type)) {
      return &rule;
    }
  }
  return nullptr;
}

bool is_identifier(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// Whether `text` has `word` between characters that belong to no identifier.
bool has_word(std::string_view text, std::string_view word) {
  for (std::size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    if ((at == 0 || !is_identifier(text[at - 1])) &&
        (end == text.size() || !is_identifier(text[end]))) {
      return true;
    }
  }
  return false;
}

/// The type of the numbers that `text`, a list of types, speaks of. Among several, integers win: a
/// program may take them for sizes.
ResultType type_in(std::string_view text) {
  if (has_word(text, "long") || has_word(text, "bool")) return ResultType::kSmallIntegers;
  for (const char* const half : {"Half", "BFloat16", "half_t", "bfloat16_t", "__half"}) {
    if (has_word(text, half)) return ResultType::kHalf;
  }
  if (has_word(text, "double")) return ResultType::kDouble;
  return has_word(text, "float") ? ResultType::kFloat : ResultType::kSmallIntegers;
}

/// What a kernel writes where its parameters do not tell.
ResultType type_of_kernel(const KernelSignature& signature) {
  std::string text = signature.name;
  for (const std::string& parameter : signature.parameters) text += ' ' + parameter;
  // Sizes that the kernel is given, rather than what it writes.
  constexpr std::string_view kSize = "unsigned long";
  for (std::size_t at = text.find(kSize); at != text.npos; at = text.find(kSize)) {
    text.erase(at, kSize.size());
  }
  return type_in(text);
}

/// The type of what a parameter points to; nullopt if it does not say.
std::optional<ResultType> type_of_parameter(std::string_view parameter) {
  constexpr std::string_view kTensorInfo = "TensorInfo<";
  if (const std::size_t at = parameter.find(kTensorInfo); at != parameter.npos) {
    const std::string_view element = parameter.substr(at + kTensorInfo.size());
    return type_in(element.substr(0, element.find(',')));
  }
  if (!parameter.ends_with('*')) return std::nullopt;
  const std::string_view pointee = parameter.substr(0, parameter.size() - 1);
  if (pointee == "void" || pointee == "char" || pointee.find("OpaqueType") != pointee.npos) {
    return std::nullopt;
  }
  return type_in(pointee);
}

/// The list of a multi_tensor_apply launch that its functor writes: the last number of a
/// Functor<T, depth, lists it reads, list it writes>.
std::optional<std::size_t> written_list(std::string_view kernel) {
  const std::size_t functor = kernel.find("Functor<");
  if (functor == kernel.npos) return std::nullopt;
  int depth = 0;
  std::size_t end = functor;
  std::size_t comma = functor;  // the last one between the functor's own brackets
  for (; end < kernel.size(); ++end) {
    if (kernel[end] == '<') ++depth;
    if (kernel[end] == '>' && --depth == 0) break;
    if (kernel[end] == ',' && depth == 1) comma = end;
  }
  const std::string_view last = kernel.substr(comma + 1, end - comma - 1);
  const std::size_t digit = last.find_first_of("0123456789");
  if (digit == last.npos || last.find_first_not_of(" 0123456789") != last.npos) return std::nullopt;
  return static_cast<std::size_t>(last[digit] - '0');
}

/// What multi_tensor_apply's functor does with the tensors of list `index`.
Role functor_role(std::string_view kernel, std::size_t index) {
  if (kernel.find("LpNormFunctor<") != kernel.npos) return Role::kInput;
  // Weights, gradients, and the optimizer's states.
  if (kernel.find("::Fused") != kernel.npos) return index == 1 ? Role::kInput : Role::kInOut;
  return written_list(kernel) == index ? Role::kInOut : Role::kInput;
}

Role role_of_list(WordRole role, std::size_t index, const KernelSignature& signature,
                  std::string_view type) {
  switch (role) {
    case WordRole::kInput:
      return Role::kInput;
    case WordRole::kOutput:
      return Role::kOutput;
    case WordRole::kInOut:
      return Role::kInOut;
    case WordRole::kSignature: {
      const std::string_view element = type.substr(std::min(type.find('<'), type.size()));
      const bool is_const = element.substr(0, element.find(',')).ends_with(" const");
      return is_const ? Role::kInput : Role::kInOut;
    }
    case WordRole::kFunctor:
      return functor_role(signature.name, index);
    case WordRole::kUnknown:
      return Role::kPossible;
  }
  return Role::kPossible;
}

bool is_written(Role role) { return role == Role::kOutput || role == Role::kInOut; }

std::uint64_t word_at(std::span<const std::byte> buffer, std::size_t offset) {
  std::uint64_t word = 0;
  std::memcpy(&word, buffer.data() + offset, sizeof(word));
  return word;
}

}  // namespace

KernelWords::KernelWords(const std::string& mangled, std::span<const ParameterLayout> parameters) {
  const KernelSignature signature = kernel_signature(mangled);
  // A signature that does not match the layout (templates with packs demangle oddly) says nothing.
  const bool has_signature =
      signature.parameters.size() == parameters.size() && !parameters.empty();
  const ResultType type_elsewhere = type_of_kernel(signature);
  bool table_writes = false;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    Parameter& parameter = parameters_.emplace_back();
    parameter.layout = parameters[i];
    parameter.type = type_elsewhere;
    if (!has_signature) continue;
    const std::string_view type = signature.parameters[i];
    parameter.type = type_of_parameter(type).value_or(type_elsewhere);
    const bool is_pointer = type.ends_with('*');
    parameter.rule = is_pointer ? nullptr : rule_for(type, parameters[i].size);
    if (parameter.rule != nullptr) {
      for (std::size_t list = 0; list < parameter.rule->list_count; ++list) {
        parameter.list_roles[list] =
            role_of_list(parameter.rule->lists[list].role, list, signature, type);
        table_writes = table_writes || is_written(parameter.list_roles[list]);
      }
    } else if (is_pointer_to_const(type)) {
      parameter.role = Role::kInput;
    }
  }
  if (!has_signature) return;
  for (Parameter& parameter : parameters_) {
    if (parameter.rule == nullptr && parameter.layout.size == kAddressBytes &&
        parameter.role == Role::kPossible && !table_writes) {
      parameter.role = Role::kInOut;
    }
  }
}

std::vector<LiveWord> KernelWords::live(
    std::span<const std::byte> buffer, const std::array<unsigned, 3>& grid,
    const std::function<bool(std::uint64_t)>& is_address) const {
  std::vector<LiveWord> words;
  for (const Parameter& parameter : parameters_) {
    if (parameter.rule != nullptr) {
      add_struct(parameter, buffer, grid, is_address, words);
      continue;
    }
    const std::size_t end =
        std::min(parameter.layout.offset + parameter.layout.size, buffer.size());
    for (std::size_t at =
             (parameter.layout.offset + kAddressBytes - 1) / kAddressBytes * kAddressBytes;
         at + kAddressBytes <= end; at += kAddressBytes) {
      const std::uint64_t value = word_at(buffer, at);
      if (!is_address(value)) continue;
      words.push_back(
          {value, at, parameter.layout.size == kAddressBytes, parameter.role, parameter.type});
    }
  }
  if (std::any_of(words.begin(), words.end(),
                  [](const LiveWord& word) { return is_written(word.role); })) {
    return words;
  }
  // Every kernel writes something.
  const auto last = std::find_if(words.rbegin(), words.rend(), [](const LiveWord& word) {
    return word.surely && word.role == Role::kPossible;
  });
  if (last != words.rend()) {
    last->role = Role::kInOut;
  } else {
    for (LiveWord& word : words) {
      if (word.role == Role::kPossible) word.role = Role::kInOut;
    }
  }
  return words;
}

void KernelWords::add_struct(const Parameter& parameter, std::span<const std::byte> buffer,
                             const std::array<unsigned, 3>& grid,
                             const std::function<bool(std::uint64_t)>& is_address,
                             std::vector<LiveWord>& words) const {
  const StructRule& rule = *parameter.rule;
  const std::size_t begin = parameter.layout.offset;
  const std::size_t end = std::min(begin + parameter.layout.size, buffer.size());
  for (std::size_t list = 0; list < rule.list_count; ++list) {
    const WordList& shape = rule.lists[list];
    const std::size_t first =
        (shape.first < 0 ? end : begin) + static_cast<std::size_t>(std::int64_t{shape.first});
    auto count = static_cast<std::size_t>(shape.fixed);
    if (shape.count == Count::kRest) count = parameter.layout.size;
    if (shape.count == Count::kGridX) count = grid[0];
    if (shape.count == Count::kGridY) count = grid[1];
    if (shape.count == Count::kTensors) {
      for (std::size_t block = 0; block < grid[0]; ++block) {
        const std::size_t at = begin + rule.block_to_tensor + block * rule.index_bytes;
        if (at + rule.index_bytes > end) break;
        std::size_t tensor = 0;  // little-endian, as the device is
        std::memcpy(&tensor, &buffer[at], rule.index_bytes);
        count = std::max(count, tensor + 1);
      }
    }
    for (std::size_t at = first; count > 0 && at + kAddressBytes <= end;
         at += kAddressBytes, --count) {
      const std::uint64_t value = word_at(buffer, at);
      if (!is_address(value)) continue;
      const bool surely = shape.count != Count::kRest && shape.role != WordRole::kUnknown;
      words.push_back({value, at, surely, parameter.list_roles[list], parameter.type});
    }
  }
}

}  // namespace simgpu
