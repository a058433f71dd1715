// Sizes as people write and read them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "policy/units.h"

namespace superpipe {

/// A size as the user wrote it: a count of bytes, or a share of a device that is not known yet.
class SizeSpec {
 public:
  /// A size of `bytes`, whatever the device.
  [[nodiscard]] static SizeSpec of_bytes(Bytes bytes) { return SizeSpec{bytes, 0.0}; }

  /// `percent` of the device. REQUIRES: 0 < percent <= 100.
  [[nodiscard]] static SizeSpec of_percent(double percent) { return SizeSpec{Bytes{}, percent}; }

  /// Whether the size depends on the device.
  [[nodiscard]] bool is_percentage() const { return percent_ > 0.0; }

  /// The size on a device of `whole` bytes; a share is rounded down to a whole byte.
  [[nodiscard]] Bytes resolve(Bytes whole) const;

 private:
  SizeSpec(Bytes bytes, double percent) : bytes_(bytes), percent_(percent) {}

  Bytes bytes_;
  double percent_;
};

/// Reads a SIZE: bytes ("1048576"), powers of 1024 ("512M", "1.5G", "16KiB"; K, M, G, T, in either
/// case, with or without "iB"), or a percentage of the device ("40%", above 0 and at most 100).
///
/// A decimal needs a unit, and is rounded down to a whole byte.
/// @return nullopt for anything else, spaces, signs, "KB" (1000 or 1024?) and overflow included.
[[nodiscard]] std::optional<SizeSpec> parse_size(std::string_view text);

/// parse_size, resolved on a device of `whole` bytes.
/// @return nullopt where parse_size has none.
[[nodiscard]] std::optional<Bytes> parse_size(std::string_view text, Bytes whole);

/// `size` for people: the largest unit that leaves at least 1, one decimal unless it is whole:
/// "0 B", "512 B", "1.5 GiB", "16 MiB". Rounded to the nearest tenth.
[[nodiscard]] std::string format_bytes(Bytes size);
/// `size` exactly, and as format_bytes() has it: "4096 bytes (4 KiB)".
[[nodiscard]] std::string exact_bytes(Bytes size);

/// `left` less `right`, and zero where that would be negative.
[[nodiscard]] constexpr Bytes saturating_subtract(Bytes left, Bytes right) {
  return left > right ? left - right : Bytes{};
}

}  // namespace superpipe
