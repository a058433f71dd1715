// The kernels without code by which simgpu's cuBLAS tells its driver of a matrix product: their
// names and what their parameters say.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace simgpu {

/// The extents of a matrix product: `batches` times an m x k matrix times a k x n matrix.
struct Product {
  std::uint64_t m = 1;
  std::uint64_t n = 1;
  std::uint64_t k = 1;
  std::uint64_t batches = 1;
  std::uint64_t element_bytes = 4;  ///< of a number of the factors, a complex one whole
  bool is_complex = false;
};

/// Memory that a product reads or writes.
struct ProductOperand {
  const void* address = nullptr;  ///< null: there is none
  std::uint64_t bytes = 0;        ///< from the address to the end of its last number; 0: not known
};

/// @name The parameters of such a kernel
/// Eight addresses that it reads, one that it writes, six words that are the fields of Product in
/// their order, and for each address the bytes of its ProductOperand. A result that is added to
/// what its memory held is among the addresses that are read as well.
/// @{
inline constexpr std::size_t kProductInputs = 8;
inline constexpr std::size_t kProductAddresses = kProductInputs + 1;
inline constexpr std::size_t kProductFields = 6;
inline constexpr std::size_t kProductWords = kProductAddresses + kProductFields + kProductAddresses;
/// @}

/// The bytes of a matrix, or of vectors side by side, from the first number to the last: `columns`
/// of `rows` numbers, whose first ones are `leading` numbers apart. Negative counts are none.
inline std::uint64_t matrix_bytes(std::int64_t rows, std::int64_t columns, std::int64_t leading,
                                  std::uint64_t number_bytes) {
  if (rows < 1 || columns < 1) return 0;
  const auto step = static_cast<std::uint64_t>(leading < 0 ? -leading : leading);
  return (static_cast<std::uint64_t>(columns - 1) * step + static_cast<std::uint64_t>(rows)) *
         number_bytes;
}

/// The bytes of `batches` matrices of `matrix` bytes that begin `stride` bytes apart. @return 0,
/// which is not known, where they lie before the first one.
inline std::uint64_t batch_bytes(std::uint64_t matrix, std::int64_t batches, std::int64_t stride) {
  if (batches < 1 || matrix == 0 || (stride < 0 && batches > 1)) return 0;
  return static_cast<std::uint64_t>(batches - 1) * static_cast<std::uint64_t>(stride) + matrix;
}

/// The name of such a kernel, mangled as a compiler does: the const of the inputs tells that it
/// writes to the output only.
inline std::string product_kernel_name(const std::string& routine) {
  const std::string name = "simgpu_cublas_" + routine;
  return "_Z" + std::to_string(name.size()) + name + "PKvS0_S0_S0_S0_S0_S0_S0_Pv" +
         std::string(kProductFields + kProductAddresses, 'm');
}

/// Whether a kernel of that (mangled) name is one of these.
inline bool is_product_kernel(std::string_view name) {
  constexpr std::string_view kStem = "simgpu_cublas_";
  const std::size_t at = name.find_first_not_of("0123456789", 2);
  return name.substr(0, 2) == "_Z" && at != std::string_view::npos &&
         name.substr(at, kStem.size()) == kStem;
}

/// The extents as parameters.
inline std::array<std::uint64_t, kProductFields> words_of(const Product& product) {
  return {product.m,
          product.n,
          product.k,
          product.batches,
          product.element_bytes,
          product.is_complex ? std::uint64_t{1} : std::uint64_t{0}};
}

/// The extents in the parameter buffer of a launch. REQUIRES: is_product_kernel(). @return none if
/// the buffer is too short.
inline std::optional<Product> product_in(std::span<const std::byte> buffer) {
  std::array<std::uint64_t, kProductWords> words{};
  if (buffer.size() < sizeof(words)) return std::nullopt;
  std::memcpy(words.data(), buffer.data(), sizeof(words));
  const std::uint64_t* const extents = words.data() + kProductAddresses;
  return Product{extents[0], extents[1], extents[2], extents[3], extents[4], extents[5] != 0};
}

/// The bytes behind the address at word `position` of the parameter buffer of a launch. REQUIRES:
/// is_product_kernel(). @return 0, which is not known, if that word is no address.
inline std::uint64_t operand_bytes_in(std::span<const std::byte> buffer, std::uint64_t position) {
  std::uint64_t bytes = 0;
  if (position >= kProductAddresses || buffer.size() < kProductWords * sizeof(bytes)) return 0;
  const std::size_t word = kProductAddresses + kProductFields + position;
  std::memcpy(&bytes, buffer.data() + word * sizeof(bytes), sizeof(bytes));
  return bytes;
}

}  // namespace simgpu
