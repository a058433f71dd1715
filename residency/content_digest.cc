#include "residency/content_digest.h"

#include <algorithm>
#include <cstring>
#include <random>

namespace superpipe {

namespace {

using Chunk = std::array<std::uint32_t, kDigestChunkWords>;
using Sums = std::array<std::uint64_t, kDigestSums>;

Sums sums_of(const DigestKey& key, const Chunk& chunk) {
  Sums sums{};
  const std::uint32_t* const words = key.words.data();
  for (unsigned i = 0; i < kDigestChunkWords; i += 2) {
#pragma GCC unroll 4
    for (unsigned t = 0; t < kDigestSums; ++t) {
      sums[t] += digest_product(chunk[i], chunk[i + 1], words[i + 2 * t], words[i + 2 * t + 1]);
    }
  }
  return sums;
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

}  // namespace

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
  std::array<std::uint64_t, 2> values{};
  std::array<std::uint64_t, 2> weights{1, 1};  // the points to the power of 4 for each chunk before
  std::array<std::uint64_t, 2> steps{};
  for (std::size_t i = 0; i < 2; ++i) steps[i] = digest_power(key.points[i], 4);
  Chunk chunk;
  while (!content.empty()) {
    const std::size_t bytes = std::min(content.size(), sizeof(chunk));
    if (bytes < sizeof(chunk)) chunk.fill(0);
    std::memcpy(chunk.data(), content.data(), bytes);
    content = content.subspan(bytes);
    const Sums sums = sums_of(key, chunk);
    for (std::size_t i = 0; i < 2; ++i) {
      const std::uint64_t value = polynomial(sums[2 * i], sums[2 * i + 1], key.points[i]);
      values[i] = digest_add(values[i], digest_multiply(weights[i], value));
      weights[i] = digest_multiply(weights[i], steps[i]);
    }
  }
  return {values[0], values[1]};
}

}  // namespace superpipe
