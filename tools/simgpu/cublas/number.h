// The types of numbers that matrices hold, and the extents of products of them.
#pragma once

#include <algorithm>
#include <cstdint>

#include "tools/simgpu/cublas/status.h"
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

/// Bytes of a number of `type` in a matrix; 0, which is not known, for numbers below a byte and for
/// types without a name here. Source: CUDA, cudaDataType_t (library_types.h).
inline std::uint64_t bytes_of(int type) {
  enum : int { kFirst8F = 28, kLast8F = 30 };
  switch (type) {
    case 3:  // integers, signed and not
    case 8:
    case kFirst8F:
    case kFirst8F + 1:
    case kLast8F:
      return 1;
    case 2:   // half
    case 14:  // bfloat16
    case 20:  // integers
    case 22:
    case 7:  // pairs of bytes
    case 9:
      return 2;
    case 0:   // float
    case 6:   // complex of half
    case 15:  // complex of bfloat16
    case 10:  // integers
    case 12:
    case 21:  // pairs of integers
    case 23:
      return 4;
    case 1:   // double
    case 4:   // complex of float
    case 24:  // integers
    case 26:
    case 11:  // pairs of integers
    case 13:
      return 8;
    case 5:   // complex of double
    case 25:  // pairs of integers
    case 27:
      return 16;
    default:
      return 0;
  }
}

/// Bytes of a factor of a product that computes in `compute_type`, complex or not. Source: cuBLAS,
/// cublasComputeType_t.
inline std::uint64_t factor_bytes(int compute_type, bool is_complex) {
  enum : int { kHalf = 64, kPedanticHalf = 65, kDoubles = 70, kPedanticDoubles = 71 };
  std::uint64_t bytes = 4;
  if (compute_type == kHalf || compute_type == kPedanticHalf) bytes = 2;
  if (compute_type == kDoubles || compute_type == kPedanticDoubles) bytes = 8;
  return is_complex ? 2 * bytes : bytes;
}

/// Whether the factor of `bytes` at `value` is surely zero; 0 bytes: not known how many.
inline bool is_zero(const void* value, std::uint64_t bytes) {
  const auto* const first = static_cast<const unsigned char*>(value);
  return bytes > 0 && std::all_of(first, first + bytes, [](unsigned char b) { return b == 0; });
}

/// What a routine reads of the result that it adds to: nothing where `beta`, of `bytes`, is null or
/// a zero on the host, as `pointer_mode` says. What is there then need not be numbers.
inline ProductOperand added_to(int pointer_mode, const void* beta, std::uint64_t bytes,
                               const ProductOperand& result) {
  const bool is_added = beta != nullptr && (pointer_mode == kDevice || !is_zero(beta, bytes));
  return is_added ? result : ProductOperand{};
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
