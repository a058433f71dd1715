// The kernels by which simgpu's cuBLAS and cuSOLVER tell its driver of what no product says:
// matrices whose addresses lie in device memory, and pivots. The driver computes both
// (driver/code/library_kernels.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "tools/simgpu/product_kernel.h"

namespace simgpu {

/// A routine over `count` matrices, whose addresses are in tables in device memory. A table that is
/// null is none.
struct Batched {
  const void* first = nullptr;        ///< table of matrices that are read
  const void* second = nullptr;       ///< table of others
  const void* overwritten = nullptr;  ///< table of matrices that are read and written
  const void* written = nullptr;      ///< table of matrices that are written
  std::uint64_t first_bytes = 0;      ///< of a matrix, from its first number to its last
  std::uint64_t second_bytes = 0;
  std::uint64_t overwritten_bytes = 0;
  std::uint64_t written_bytes = 0;
  std::uint64_t count = 0;
  /// What is read for every matrix and is no table: pivots, or factors that lie on the device.
  std::array<ProductOperand, 2> shared = {};
};

/// (the four tables, the bytes of a matrix of each, the count, the two shared operands, the bytes
/// of each): reads first, second, overwritten and what is shared, and writes overwritten and
/// written.
inline constexpr const char* kBatchedKernel = "_Z14simgpu_batchedPKPKvS2_PKPvS5_mmmmmS0_S0_mm";
inline constexpr std::size_t kBatchedWords = 13;

/// The parameters of that kernel.
inline std::array<std::uint64_t, kBatchedWords> words_of(const Batched& batched) {
  const auto word = [](const void* table) {
    return static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(table));
  };
  const auto& [one, other] = batched.shared;
  return {
      word(batched.first), word(batched.second), word(batched.overwritten), word(batched.written),
      batched.first_bytes, batched.second_bytes, batched.overwritten_bytes, batched.written_bytes,
      batched.count,       word(one.address),    word(other.address),       one.bytes,
      other.bytes};
}

/// (pivots, count of each matrix, matrices, bytes of a pivot): writes 1 to count for each matrix.
inline constexpr const char* kPivotsKernel = "_Z13simgpu_pivotsPvmmm";
inline constexpr std::size_t kPivotsWords = 4;

}  // namespace simgpu
