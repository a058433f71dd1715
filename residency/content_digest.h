// What tells whether content has changed: a digest of 128 bits, on the host and on the device.
//
// Content is taken as words of 32 bits, the last ones filled up with zero bytes, in chunks of
// kDigestChunkWords. A digest is made in two steps:
//  1. NH makes four sums of 64 bits of each chunk: sum t adds up, over all pairs of words,
//     (m[2i] + k[2i + 2t]) * (m[2i + 1] + k[2i + 1 + 2t]), sums of words modulo 2^32, products and
//     their sum modulo 2^64.
//  2. Two polynomials over the integers modulo 2^61 - 1, at two random points, make 61 bits each of
//     the sums of all chunks: the first of sums 0 and 1, the second of sums 2 and 3, each as its
//     two halves.
//
// How likely is it that changed content has the digest that it had? For a key drawn at random, and
// contents that do not depend on it, four sums of NH agree on different chunks with probability
// 2^-128, two of them with 2^-64; polynomials of degree n agree with n / 2^61. n is four for each
// chunk of 2 KiB. So that for 32 MiB it is less than 2^-87, for 1 GiB less than 2^-78: with a
// million comparisons a second it would take longer than a billion years to meet one. Sources: NH
// and its shifted keys, Black, Halevi, Krawczyk, Krovetz, Rogaway, "UMAC: Fast and Secure Message
// Authentication", CRYPTO 1999, theorems 4.2 and 4.3.
//
// The device's kernel includes this file too.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#ifdef __CUDACC__
#define SUPERPIPE_HOST_DEVICE __host__ __device__
#else
#define SUPERPIPE_HOST_DEVICE
#endif

namespace superpipe {

/// Words of 32 bits in a chunk.
inline constexpr unsigned kDigestChunkWords = 512;
inline constexpr std::size_t kDigestChunkBytes = kDigestChunkWords * sizeof(std::uint32_t);
/// Sums that NH makes of a chunk.
inline constexpr unsigned kDigestSums = 4;
/// Words of a key: each sum's are those of the one before, shifted by a pair.
inline constexpr unsigned kDigestKeyWords = kDigestChunkWords + 2 * (kDigestSums - 1);
/// The modulus of the polynomials, a prime.
inline constexpr std::uint64_t kDigestPrime = (std::uint64_t{1} << 61) - 1;

/// A digest. Equal ones mean equal content, except with the probability that is given above.
struct ContentDigest {
  std::uint64_t first = 0;
  std::uint64_t second = 0;
  bool operator==(const ContentDigest&) const = default;
};

/// The most parts in which a device leaves a digest.
inline constexpr std::size_t kMostDigestParts = 512;
/// What the blocks of a kernel make of a digest, each of its own chunks: parts that add up to it.
using DigestParts = std::array<ContentDigest, kMostDigestParts>;

/// The digest of which these are the parts.
ContentDigest sum_of(std::span<const ContentDigest> parts);

/// What is drawn at random once per process. Digests under different keys tell nothing together.
struct DigestKey {
  std::array<std::uint32_t, kDigestKeyWords> words;
  /// Where the two polynomials are evaluated: below kDigestPrime.
  std::array<std::uint64_t, 2> points;
};

/// A key from the system's random numbers. Throws std::runtime_error if it has none.
DigestKey draw_digest_key();

/// The digest of `content`, computed by the calling thread: at 4 GB/s from memory and 9 GB/s from
/// the cache, on a processor with AVX2. Any thread.
ContentDigest digest_of(const DigestKey& key, std::span<const std::byte> content);

/// What the bytes [offset, offset + size) of `content` make of digest_of(content): such parts that
/// lie one behind the other add up to it (sum_of). `offset`, and `size` except that of the last
/// part: a multiple of kDigestChunkBytes. At the same speed. Any thread.
ContentDigest digest_part_of(const DigestKey& key, std::span<const std::byte> content,
                             std::size_t offset, std::size_t size);

/// The same as digest_of(), at about 2.5 GB/s, as digest_of() computes it on processors that have
/// no AVX2.
ContentDigest portable_digest_of(const DigestKey& key, std::span<const std::byte> content);

/// The digest of `size` zero bytes. Cost: logarithmic in the size.
ContentDigest digest_of_zeros(const DigestKey& key, std::uint64_t size);

/// What a pair of words adds to a sum of NH.
SUPERPIPE_HOST_DEVICE inline std::uint64_t digest_product(std::uint32_t word0, std::uint32_t word1,
                                                          std::uint32_t key0, std::uint32_t key1) {
  return std::uint64_t{word0 + key0} * (word1 + key1);
}

/// (a + b) modulo kDigestPrime. Both below it.
SUPERPIPE_HOST_DEVICE inline std::uint64_t digest_add(std::uint64_t a, std::uint64_t b) {
  const std::uint64_t sum = a + b;
  return sum >= kDigestPrime ? sum - kDigestPrime : sum;
}

/// (a * b) modulo kDigestPrime. Both below it.
SUPERPIPE_HOST_DEVICE inline std::uint64_t digest_multiply(std::uint64_t a, std::uint64_t b) {
#ifdef __CUDA_ARCH__
  const std::uint64_t high = __umul64hi(a, b);
  const std::uint64_t low = a * b;
#else
  __extension__ using Product = unsigned __int128;  // not of ISO C++
  const auto product = static_cast<Product>(a) * b;
  const auto high = static_cast<std::uint64_t>(product >> 64);
  const auto low = static_cast<std::uint64_t>(product);
#endif
  // 2^61 is 1.
  return digest_add(low & kDigestPrime, (high << 3) | (low >> 61));
}

/// `base` to the power of `exponent`, modulo kDigestPrime. base: below it.
SUPERPIPE_HOST_DEVICE inline std::uint64_t digest_power(std::uint64_t base,
                                                        std::uint64_t exponent) {
  std::uint64_t power = 1;
  for (; exponent != 0; exponent >>= 1) {
    if ((exponent & 1) != 0) power = digest_multiply(power, base);
    base = digest_multiply(base, base);
  }
  return power;
}

}  // namespace superpipe
