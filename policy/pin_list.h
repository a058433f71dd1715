// Which buffers the user wants to stay on the device (SUPERPIPE_PIN).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "policy/units.h"

namespace superpipe {

/// A list of buffers, by their numbers or by their sizes.
///
/// A process counts its buffers from 1, in the order in which they are allocated: those of all its
/// contexts together, and no allocation that failed or that was left to the driver. A size is what
/// the program asks for, and names all buffers of that size.
class PinList {
 public:
  /// Reads entries between commas: a number (12), a size, which has a unit (8M, 33554432B), or two
  /// of either with a dash between (12-15, 1M-2M), which name all from the first to the second.
  /// @return nullopt if `text` is something else.
  static std::optional<PinList> parse(std::string_view text);

  [[nodiscard]] bool empty() const { return numbers_.empty() && sizes_.empty(); }
  /// Whether a buffer is on the list. Linear in the list.
  [[nodiscard]] bool includes(std::uint64_t number, Bytes size) const;

 private:
  struct Range {
    std::uint64_t first;
    std::uint64_t last;
  };
  static bool includes(const std::vector<Range>& ranges, std::uint64_t value);

  std::vector<Range> numbers_;
  std::vector<Range> sizes_;
};

/// What parse() reads as the list of the buffers with `numbers`, which are in ascending order.
[[nodiscard]] std::string pin_list_text(std::span<const std::uint64_t> numbers);

}  // namespace superpipe
