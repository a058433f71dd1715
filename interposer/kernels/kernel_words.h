// Which words of the structs that frameworks hand to their kernels are pointers.
//
// A program hands a struct over as it lay on its stack: the words that the kernel never looks at
// hold whatever was there before, old addresses among it, and each would bring a buffer back to the
// device for nothing. tools/kernel_words.json lists the structs of which it is known what the
// kernel looks at.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace superpipe {

/// What is known of a struct: a row of the table, whose fields tools/kernel_words.py explains.
struct KnownStruct {
  static constexpr std::size_t kMostLists = 6;
  /// How many words of a list are pointers.
  enum class Count { kFixed, kRest, kGridX, kGridY, kTensors };
  /// Consecutive words of 8 bytes.
  struct List {
    int first;  ///< byte; from the struct's end if negative
    Count count;
    int fixed;  ///< words, if kFixed
  };

  const char* type;  ///< what the demangled type begins with
  std::size_t smallest;
  std::size_t largest;  ///< bytes of the struct
  std::size_t block_to_tensor;
  std::size_t index_bytes;  ///< of each number there
  std::size_t list_count;
  std::array<List, kMostLists> lists;

  /// The byte of a struct of `bytes` at which `list` begins.
  [[nodiscard]] static std::size_t first_byte(const List& list, std::size_t bytes) {
    const auto offset = static_cast<std::size_t>(list.first < 0 ? -list.first : list.first);
    return list.first < 0 ? bytes - offset : offset;
  }
};

/// The row for a parameter of the demangled type `type` and of `bytes`; null if there is none: any
/// of its words may then be a pointer. A struct of another size is another struct, of another
/// version of the framework perhaps. Linear in the table.
[[nodiscard]] const KnownStruct* known_struct(std::string_view type, std::size_t bytes);

/// Whether the table was made and checked for that version of PyTorch, such as "2.11.0+cu130".
[[nodiscard]] bool has_words_of_version(std::string_view version);

/// Whether a demangled type is a pointer.
[[nodiscard]] bool is_pointer(std::string_view type);
/// Whether it is one to pointers.
[[nodiscard]] bool is_array_of_pointers(std::string_view type);

/// Whether a kernel of that mangled name is one of PyTorch's own, and so its structs.
[[nodiscard]] bool is_of_pytorch(std::string_view mangled);

/// The demangled types of a kernel's parameters; empty if its name does not tell them (C linkage).
/// Cost: one demangling.
[[nodiscard]] std::vector<std::string> parameter_types(const std::string& mangled);

}  // namespace superpipe
