#include "residency/content_digest.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <cstring>
#include <random>

namespace superpipe {

namespace {

using Sums = std::array<std::uint64_t, kDigestSums>;

// The sums of the kDigestChunkBytes bytes at `chunk`.
Sums sums_of(const DigestKey& key, const std::byte* chunk) {
  Sums sums{};
  const std::uint32_t* const words = key.words.data();
  for (std::size_t i = 0; i < kDigestChunkWords; i += 2) {
    std::array<std::uint32_t, 2> pair;
    std::memcpy(pair.data(), chunk + i * sizeof(std::uint32_t), sizeof(pair));
#pragma GCC unroll 4
    for (std::size_t t = 0; t < kDigestSums; ++t) {
      sums[t] += digest_product(pair[0], pair[1], words[i + 2 * t], words[i + 2 * t + 1]);
    }
  }
  return sums;
}

#if defined(__x86_64__)
// The same where the processor has AVX2, three times as fast: a pair of words meets the four pairs
// of the key that lie one behind the other, one for each sum.
__attribute__((target("avx2"))) Sums sums_by_avx2(const DigestKey& key, const std::byte* chunk) {
  static_assert(sizeof(Sums) == sizeof(__m256i));
  // Two, so that an addition need not wait for the one before.
  __m256i even = _mm256_setzero_si256();
  __m256i odd = _mm256_setzero_si256();
  const auto products = [&](std::size_t i) __attribute__((target("avx2"))) {
    long long pair = 0;
    std::memcpy(&pair, chunk + i * sizeof(std::uint32_t), sizeof(pair));
    const auto* const words = reinterpret_cast<const __m256i*>(key.words.data() + i);
    const __m256i both = _mm256_add_epi32(_mm256_loadu_si256(words), _mm256_set1_epi64x(pair));
    return _mm256_mul_epu32(both, _mm256_srli_epi64(both, 32));
  };
  for (std::size_t i = 0; i < kDigestChunkWords; i += 4) {
    even = _mm256_add_epi64(even, products(i));
    odd = _mm256_add_epi64(odd, products(i + 2));
  }
  Sums sums;
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(sums.data()), _mm256_add_epi64(even, odd));
  return sums;
}
#endif

using SumsFunction = Sums (*)(const DigestKey& key, const std::byte* chunk);

// The fastest that this processor has.
SumsFunction fastest_sums() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) return &sums_by_avx2;
#endif
  return &sums_of;
}

// The polynomial of the halves of two sums: of degree 4, without a constant.
std::uint64_t polynomial(std::uint64_t sum0, std::uint64_t sum1, std::uint64_t point) {
  constexpr std::uint64_t kHalf = 0xffffffffU;
  std::uint64_t value = 0;
  for (const std::uint64_t coefficient : {sum1 >> 32, sum1 & kHalf, sum0 >> 32, sum0 & kHalf}) {
    value = digest_multiply(digest_add(value, coefficient), point);
  }
  return value;
}

// What `content` makes of a digest, behind `before` chunks.
ContentDigest digest_by(SumsFunction sums_of_chunk, const DigestKey& key,
                        std::span<const std::byte> content, std::uint64_t before) {
  std::array<std::uint64_t, 2> values{};
  std::array<std::uint64_t, 2> weights{};  // the points to the power of 4 for each chunk before
  std::array<std::uint64_t, 2> steps{};
  for (std::size_t i = 0; i < 2; ++i) {
    steps[i] = digest_power(key.points[i], 4);
    weights[i] = digest_power(steps[i], before);
  }
  while (!content.empty()) {
    Sums sums;
    if (content.size() >= kDigestChunkBytes) {
      sums = sums_of_chunk(key, content.data());
      content = content.subspan(kDigestChunkBytes);
    } else {
      std::array<std::byte, kDigestChunkBytes> last{};
      std::memcpy(last.data(), content.data(), content.size());
      sums = sums_of_chunk(key, last.data());
      content = {};
    }
    for (std::size_t i = 0; i < 2; ++i) {
      const std::uint64_t value = polynomial(sums[2 * i], sums[2 * i + 1], key.points[i]);
      values[i] = digest_add(values[i], digest_multiply(weights[i], value));
      weights[i] = digest_multiply(weights[i], steps[i]);
    }
  }
  return {values[0], values[1]};
}

// 1 + ratio + ... + ratio^(terms - 1), modulo kDigestPrime.
std::uint64_t geometric_sum(std::uint64_t ratio, std::uint64_t terms) {
  if (terms == 0) return 0;
  const std::uint64_t half = geometric_sum(ratio, terms / 2);
  const std::uint64_t even =
      digest_add(half, digest_multiply(half, digest_power(ratio, terms / 2)));
  return terms % 2 == 0 ? even : digest_add(digest_multiply(even, ratio), 1);
}

}  // namespace

ContentDigest sum_of(std::span<const ContentDigest> parts) {
  ContentDigest sum;
  for (const ContentDigest& part : parts) {
    sum.first = digest_add(sum.first, part.first);
    sum.second = digest_add(sum.second, part.second);
  }
  return sum;
}

DigestKey draw_digest_key() {
  std::random_device device;
  DigestKey key{};
  for (std::uint32_t& word : key.words) word = device();
  for (std::uint64_t& point : key.points) {
    do {
      point = (std::uint64_t{device()} << 32 | device()) & kDigestPrime;
    } while (point == kDigestPrime);
  }
  return key;
}

ContentDigest digest_of(const DigestKey& key, std::span<const std::byte> content) {
  return digest_by(fastest_sums(), key, content, 0);
}

ContentDigest digest_part_of(const DigestKey& key, std::span<const std::byte> content,
                             std::size_t offset, std::size_t size) {
  return digest_by(fastest_sums(), key, content.subspan(offset, size), offset / kDigestChunkBytes);
}

// All chunks have the same sums, and count with powers of the points.
ContentDigest digest_of_zeros(const DigestKey& key, std::uint64_t size) {
  const std::array<std::byte, kDigestChunkBytes> zeros{};
  const Sums sums = sums_of(key, zeros.data());
  const std::uint64_t chunks = (size + kDigestChunkBytes - 1) / kDigestChunkBytes;
  std::array<std::uint64_t, 2> values{};
  for (std::size_t i = 0; i < 2; ++i) {
    const std::uint64_t value = polynomial(sums[2 * i], sums[2 * i + 1], key.points[i]);
    values[i] = digest_multiply(value, geometric_sum(digest_power(key.points[i], 4), chunks));
  }
  return {values[0], values[1]};
}

ContentDigest portable_digest_of(const DigestKey& key, std::span<const std::byte> content) {
  return digest_by(&sums_of, key, content, 0);
}

}  // namespace superpipe
