// Which words of a kernel's parameters it uses as addresses, and what for.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "tools/simgpu/driver/code/module_image.h"

namespace simgpu {

/// What a kernel does with the memory behind an operand.
enum class Role {
  kInput,     ///< It only reads it.
  kOutput,    ///< It writes it, and does not depend on what was there.
  kInOut,     ///< It reads and writes it.
  kPossible,  ///< It may read and write it; a mixer only reads it.
};

/// What a mixer writes into a result of a kernel: by the type of the parameter, if it is a pointer
/// or a TensorInfo, else by the types that the kernel has to do with.
enum class ResultType {
  kSmallIntegers,  ///< words of 8 bytes, at most 4095: also what is unknown
  kHalf,           ///< 16-bit floats in [1, 2), of IEEE's format or bfloat16's
  kFloat,          ///< 32-bit floats in [1, 2)
  kDouble,         ///< 64-bit floats in [1, 2)
};

/// An 8-byte word of a launch's parameters that the kernel may use as an address.
struct LiveWord {
  std::uint64_t value = 0;
  std::size_t offset = 0;  ///< in the parameter buffer, a multiple of 8
  /// It is a parameter of its own, or the table says so: a pointer, if it looks like one. If not,
  /// it may be a leftover in a struct.
  bool surely = false;
  Role role = Role::kInput;
  ResultType type = ResultType::kSmallIntegers;  ///< of what the kernel writes there

  friend bool operator==(const LiveWord&, const LiveWord&) = default;
};

/// Of one kernel: which words of its parameters are live, and in which role.
///
/// Parameters of 8 bytes are pointers or numbers: to const they are inputs, if the mangled name
/// tells. By-value structs count word by word, unless tools/kernel_words.json knows what their
/// kernel looks at. Immutable.
class KernelWords {
 public:
  /// Cost: one demangling.
  KernelWords(const std::string& mangled, std::span<const ParameterLayout> parameters);

  /// The live words of a launch with the parameters `buffer` and `grid` blocks for which
  /// `is_address` holds, in ascending order of their offsets.
  ///
  /// Roles: by the table; else by const; else, if the kernel has a signature, a pointer is kInOut
  /// unless the table has found an output. Without a signature the last pointer is kInOut, and the
  /// others are kPossible, as the words of unknown structs are; only where nothing is written at
  /// all do these become kInOut.
  [[nodiscard]] std::vector<LiveWord> live(
      std::span<const std::byte> buffer, const std::array<unsigned, 3>& grid,
      const std::function<bool(std::uint64_t)>& is_address) const;

  /// How many words of a list are live.
  enum class Count { kFixed, kRest, kGridX, kGridY, kTensors };
  /// How the role of a list is known: kSignature and kFunctor are found out in the constructor, and
  /// the words of a kUnknown list need not be addresses at all.
  enum class WordRole { kInput, kOutput, kInOut, kSignature, kFunctor, kUnknown };
  static constexpr std::size_t kMostLists = 6;
  /// Consecutive words of a struct that are used in the same way.
  struct WordList {
    int first;  ///< byte; from the struct's end if negative
    Count count;
    int fixed;  ///< words, if kFixed
    WordRole role;
  };
  /// A row of the table; its fields are explained in tools/kernel_words.py.
  struct StructRule {
    const char* type;
    std::size_t smallest;
    std::size_t largest;
    std::size_t block_to_tensor;
    std::size_t index_bytes;
    std::size_t list_count;
    std::array<WordList, kMostLists> lists;
  };

 private:
  struct Parameter {
    ParameterLayout layout;
    const StructRule* rule = nullptr;
    std::array<Role, kMostLists> list_roles{};  ///< with `rule`
    Role role = Role::kPossible;                ///< without
    ResultType type = ResultType::kSmallIntegers;
  };

  void add_struct(const Parameter& parameter, std::span<const std::byte> buffer,
                  const std::array<unsigned, 3>& grid,
                  const std::function<bool(std::uint64_t)>& is_address,
                  std::vector<LiveWord>& words) const;

  std::vector<Parameter> parameters_;
};

}  // namespace simgpu
