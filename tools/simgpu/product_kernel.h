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

/// @name The parameters of such a kernel
/// Eight addresses that it reads, one that it writes, and six words: the fields of Product in their
/// order.
/// @{
inline constexpr std::size_t kProductInputs = 8;
inline constexpr std::size_t kProductAddresses = kProductInputs + 1;
inline constexpr std::size_t kProductWords = kProductAddresses + 6;
/// @}

/// The name of such a kernel, mangled as a compiler does: the const of the inputs tells that it
/// writes to the output only.
inline std::string product_kernel_name(const std::string& routine) {
  const std::string name = "simgpu_cublas_" + routine;
  return "_Z" + std::to_string(name.size()) + name + "PKvS0_S0_S0_S0_S0_S0_S0_Pvmmmmmm";
}

/// Whether a kernel of that (mangled) name is one of these.
inline bool is_product_kernel(std::string_view name) {
  constexpr std::string_view kStem = "simgpu_cublas_";
  const std::size_t at = name.find_first_not_of("0123456789", 2);
  return name.substr(0, 2) == "_Z" && at != std::string_view::npos &&
         name.substr(at, kStem.size()) == kStem;
}

/// The extents as parameters.
inline std::array<std::uint64_t, 6> words_of(const Product& product) {
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

}  // namespace simgpu
