// The types of numbers that tensors hold.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>

namespace simgpu::cudnn {

/// Bytes of one number of that cudnnDataType_t. Types below a byte count as one. Source: cuDNN,
/// cudnnDataType_t.
inline std::uint64_t bytes_of(int type) {
  switch (type) {
    case 1:   // double
    case 10:  // int64
    case 20:  // complex
      return 8;
    case 21:  // double complex
      return 16;
    case 2:  // half
    case 9:  // bfloat16
      return 2;
    case 0:   // float
    case 4:   // int32
    case 14:  // float in place of 8 bits
    case 19:  // uint32
      return 4;
    default:
      return 1;
  }
}

/// The bytes of a tensor of that type from its first number to its last; strides in numbers.
/// @return 0, which is not known, where extents and strides do not fit together, a stride is
/// negative, or the type is below a byte or one that is not listed here.
template <typename Integer>
std::uint64_t strided_bytes(std::span<const Integer> extents, std::span<const Integer> strides,
                            int type) {
  constexpr int kSingleBytes[] = {3, 8, 11, 12, 13};  // integers, boolean, floats of 8 bits
  const std::uint64_t number = bytes_of(type);
  const bool is_byte =
      std::find(std::begin(kSingleBytes), std::end(kSingleBytes), type) != std::end(kSingleBytes);
  if ((number == 1 && !is_byte) || extents.empty() || extents.size() != strides.size()) return 0;
  std::uint64_t last = 0;
  for (std::size_t i = 0; i < extents.size(); ++i) {
    if (extents[i] < 1 || strides[i] < 0) return 0;
    last += static_cast<std::uint64_t>(extents[i] - 1) * static_cast<std::uint64_t>(strides[i]);
  }
  return (last + 1) * number;
}

}  // namespace simgpu::cudnn
