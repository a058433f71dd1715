// The types of numbers that matrices hold, and the extents of products of them.
#pragma once

#include <algorithm>
#include <cstdint>

#include "tools/simgpu/product_kernel.h"

namespace simgpu::cublas {

/// A type of number.
struct Number {
  std::uint64_t bytes = 4;  ///< of one; a complex one whole
  bool is_complex = false;
};
inline constexpr Number kSingle{4, false};
inline constexpr Number kDouble{8, false};
inline constexpr Number kComplex{8, true};
inline constexpr Number kDoubleComplex{16, true};

/// The type that `type` names; single precision for one that is not a type of factors of products.
/// Numbers below a byte count as one. Source: CUDA, cudaDataType_t (library_types.h).
inline Number number_of(int type) {
  enum : int {
    kR16F = 2,
    kR16BF = 14,
    kR64F = 1,
    kR8I = 3,
    kR8U = 8,
    kFirst8F = 28,
    kC16F = 6,
    kC16BF = 15,
    kC32F = 4,
    kC64F = 5,
  };
  switch (type) {
    case kR16F:
    case kR16BF:
      return {2, false};
    case kR64F:
      return kDouble;
    case kR8I:
    case kR8U:
      return {1, false};
    case kC16F:
    case kC16BF:
      return {4, true};
    case kC32F:
      return kComplex;
    case kC64F:
      return kDoubleComplex;
    default:
      return type >= kFirst8F ? Number{1, false} : kSingle;
  }
}

/// The product of these extents; negative ones count as none.
inline Product product_of(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t batches,
                          Number number) {
  const auto extent = [](std::int64_t value) {
    return static_cast<std::uint64_t>(std::max<std::int64_t>(value, 0));
  };
  return {extent(m), extent(n), extent(k), extent(batches), number.bytes, number.is_complex};
}

}  // namespace simgpu::cublas
