#include "residency/content_digest.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

namespace superpipe {
namespace {

__extension__ using Wide = unsigned __int128;

constexpr std::size_t kChunkBytes = kDigestChunkBytes;

std::vector<std::byte> random_bytes(std::size_t size, unsigned seed) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

DigestKey random_key(unsigned seed) {
  std::mt19937_64 random(seed);
  DigestKey key;
  for (std::uint32_t& word : key.words) word = static_cast<std::uint32_t>(random());
  for (std::uint64_t& point : key.points) point = random() % kDigestPrime;
  return key;
}

std::uint64_t power_by_the_book(std::uint64_t base, std::size_t exponent) {
  std::uint64_t power = 1;
  for (std::size_t i = 0; i < exponent; ++i) {
    power = static_cast<std::uint64_t>(Wide{power} * base % kDigestPrime);
  }
  return power;
}

// What the header describes, step by step: all sums first, then two polynomials, term by term.
ContentDigest digest_by_the_book(const DigestKey& key, std::vector<std::byte> content) {
  content.resize((content.size() + kChunkBytes - 1) / kChunkBytes * kChunkBytes);
  std::vector<std::uint32_t> words(content.size() / 4);
  for (std::size_t i = 0; i < words.size(); ++i) {
    for (unsigned byte = 0; byte < 4; ++byte) {
      words[i] |= std::to_integer<std::uint32_t>(content[4 * i + byte]) << (8 * byte);
    }
  }
  std::array<std::uint64_t, 2> digest{};
  for (std::size_t chunk = 0; chunk < words.size() / kDigestChunkWords; ++chunk) {
    const std::uint32_t* const m = words.data() + chunk * kDigestChunkWords;
    const std::uint32_t* const k = key.words.data();
    for (std::size_t t = 0; t < kDigestSums; ++t) {
      Wide sum = 0;
      for (std::size_t i = 0; i < kDigestChunkWords / 2; ++i) {
        const Wide left = (Wide{m[2 * i]} + k[2 * i + 2 * t]) % (Wide{1} << 32);
        const Wide right = (Wide{m[2 * i + 1]} + k[2 * i + 1 + 2 * t]) % (Wide{1} << 32);
        sum = (sum + left * right) % (Wide{1} << 64);
      }
      const std::size_t polynomial = t / 2;
      for (std::size_t half = 0; half < 2; ++half) {
        const std::size_t exponent = 4 * chunk + 2 * (t % 2) + half + 1;
        const Wide coefficient = (sum >> (32 * half)) % (Wide{1} << 32);
        const Wide term = coefficient * power_by_the_book(key.points[polynomial], exponent);
        digest[polynomial] = static_cast<std::uint64_t>((digest[polynomial] + term) % kDigestPrime);
      }
    }
  }
  return {digest[0], digest[1]};
}

TEST(DigestMultiply, IsTheRemainderOfTheProduct) {
  std::mt19937_64 random(7);
  std::vector<std::uint64_t> values{
      0, 1, 2, 7, 8, kDigestPrime / 2, kDigestPrime - 2, kDigestPrime - 1};
  for (int i = 0; i < 200; ++i) values.push_back(random() % kDigestPrime);
  for (const std::uint64_t a : values) {
    for (const std::uint64_t b : values) {
      ASSERT_EQ(digest_multiply(a, b), static_cast<std::uint64_t>(Wide{a} * b % kDigestPrime))
          << a << " * " << b;
      ASSERT_EQ(digest_add(a, b), (a + b) % kDigestPrime) << a << " + " << b;
    }
  }
}

TEST(DigestPower, IsTheRepeatedProduct) {
  std::mt19937_64 random(8);
  for (const std::uint64_t base :
       {std::uint64_t{0}, std::uint64_t{1}, kDigestPrime - 1, random() % kDigestPrime}) {
    for (const std::size_t exponent : {0, 1, 2, 3, 4, 31, 32, 1000}) {
      EXPECT_EQ(digest_power(base, exponent), power_by_the_book(base, exponent)) << exponent;
    }
  }
  // Fermat's little theorem, for an exponent of 60 bits.
  EXPECT_EQ(digest_power(12345, kDigestPrime - 1), 1U);
}

TEST(DrawDigestKey, DrawsPointsBelowThePrimeAndOtherKeysEachTime) {
  const DigestKey one = draw_digest_key();
  const DigestKey other = draw_digest_key();
  for (const std::uint64_t point : one.points) EXPECT_LT(point, kDigestPrime);
  EXPECT_NE(one.points, other.points);
  EXPECT_NE(one.points[0], one.points[1]);
  EXPECT_NE(one.words, other.words);
  EXPECT_FALSE(std::equal(one.words.begin() + 1, one.words.end(), one.words.begin()));
}

TEST(DigestOf, IsWhatTheHeaderDescribes) {
  const DigestKey key = random_key(1);
  for (const std::size_t size :
       {std::size_t{1}, std::size_t{2}, std::size_t{3}, std::size_t{4}, std::size_t{5},
        std::size_t{15}, std::size_t{4095}, std::size_t{4096}, std::size_t{4097},
        2 * kChunkBytes - 1, 2 * kChunkBytes, 7 * kChunkBytes + 1234}) {
    const std::vector<std::byte> content = random_bytes(size, 2);
    const ContentDigest expected = digest_by_the_book(key, content);
    EXPECT_EQ(digest_of(key, content), expected) << size << " bytes";
    EXPECT_EQ(portable_digest_of(key, content), expected) << size << " bytes";
  }
}

TEST(SumOf, AddsPartsModuloThePrime) {
  EXPECT_EQ(sum_of({}), ContentDigest{});
  const std::array<ContentDigest, 3> parts{{{kDigestPrime - 1, 1}, {2, 2}, {3, kDigestPrime - 1}}};
  EXPECT_EQ(sum_of(parts), (ContentDigest{4, 2}));
}

TEST(DigestOf, IsWhatTheHeaderDescribesForExtremes) {
  DigestKey highest;
  highest.words.fill(0xffffffffU);
  highest.points.fill(kDigestPrime - 1);
  const DigestKey zero{};
  for (const DigestKey& key : {highest, zero, random_key(3)}) {
    for (const std::byte byte : {std::byte{0}, std::byte{1}, std::byte{0xff}}) {
      const std::vector<std::byte> content(3 * kChunkBytes, byte);
      const ContentDigest expected = digest_by_the_book(key, content);
      EXPECT_EQ(digest_of(key, content), expected);
      EXPECT_EQ(portable_digest_of(key, content), expected);
    }
  }
}

TEST(DigestOf, IsTheSameAtAnyAddress) {
  const DigestKey key = random_key(4);
  const std::vector<std::byte> content = random_bytes(2 * kChunkBytes + 77, 5);
  for (std::size_t shift = 1; shift < 16; ++shift) {
    std::vector<std::byte> shifted(shift);
    shifted.insert(shifted.end(), content.begin(), content.end());
    EXPECT_EQ(digest_of(key, std::span(shifted).subspan(shift)), digest_of(key, content));
  }
}

TEST(DigestOf, ChangesWithEachBit) {
  const DigestKey key = random_key(6);
  std::vector<std::byte> content = random_bytes(3 * kChunkBytes + 5, 7);
  const ContentDigest before = digest_of(key, content);
  for (const std::size_t at : {std::size_t{0}, std::size_t{1}, std::size_t{4}, kChunkBytes - 1,
                               kChunkBytes, content.size() / 2, content.size() - 1}) {
    for (unsigned bit = 0; bit < 8; ++bit) {
      const std::byte flip{static_cast<unsigned char>(1U << bit)};
      content[at] ^= flip;
      const ContentDigest after = digest_of(key, content);
      EXPECT_NE(after.first, before.first) << "byte " << at << " bit " << bit;
      EXPECT_NE(after.second, before.second) << "byte " << at << " bit " << bit;
      content[at] ^= flip;
    }
  }
  EXPECT_EQ(digest_of(key, content), before);
}

TEST(DigestOf, ChangesWhenPartsChangePlaces) {
  const DigestKey key = random_key(8);
  const std::vector<std::byte> content = random_bytes(4 * kChunkBytes, 9);
  const ContentDigest before = digest_of(key, content);
  // Words of a pair, pairs, and chunks.
  for (const std::size_t size : {std::size_t{4}, std::size_t{8}, kChunkBytes}) {
    std::vector<std::byte> changed = content;
    std::swap_ranges(changed.begin(), changed.begin() + static_cast<std::ptrdiff_t>(size),
                     changed.begin() + static_cast<std::ptrdiff_t>(size));
    const ContentDigest after = digest_of(key, changed);
    EXPECT_NE(after.first, before.first) << size;
    EXPECT_NE(after.second, before.second) << size;
  }
}

TEST(DigestOf, DependsOnTheKey) {
  const std::vector<std::byte> content = random_bytes(kChunkBytes, 10);
  DigestKey key = random_key(11);
  const ContentDigest before = digest_of(key, content);
  key.words.front() += 1;
  EXPECT_NE(digest_of(key, content).first, before.first);
  key = random_key(11);
  key.words.back() += 1;
  EXPECT_NE(digest_of(key, content).second, before.second);
  key = random_key(11);
  key.points[1] ^= 1;
  EXPECT_EQ(digest_of(key, content).first, before.first);
  EXPECT_NE(digest_of(key, content).second, before.second);
}

// So that contents of different sizes are not told apart: who compares them compares sizes first.
TEST(DigestOf, TakesMissingBytesOfAChunkForZero) {
  const DigestKey key = random_key(12);
  std::vector<std::byte> content = random_bytes(kChunkBytes + 5, 13);
  const ContentDigest before = digest_of(key, content);
  content.resize(2 * kChunkBytes);
  EXPECT_EQ(digest_of(key, content), before);
  content.resize(2 * kChunkBytes + 1);
  EXPECT_NE(digest_of(key, content), before);
}

TEST(DigestPartOf, AddsUpToTheDigest) {
  const DigestKey key = random_key(17);
  const std::vector<std::byte> content = random_bytes(5 * kChunkBytes + 123, 18);
  for (const std::size_t step : {kChunkBytes, 2 * kChunkBytes, 6 * kChunkBytes}) {
    std::vector<ContentDigest> parts;
    for (std::size_t offset = 0; offset < content.size(); offset += step) {
      parts.push_back(
          digest_part_of(key, content, offset, std::min(step, content.size() - offset)));
    }
    EXPECT_EQ(sum_of(parts), digest_of(key, content)) << step;
  }
}

TEST(DigestOfZeros, IsThatOfAsManyZeroBytes) {
  const DigestKey key = random_key(8);
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, kChunkBytes - 1, kChunkBytes,
                                 kChunkBytes + 1, 2 * kChunkBytes, 3 * kChunkBytes, 7 * kChunkBytes,
                                 100 * kChunkBytes, 1000 * kChunkBytes + 5}) {
    const std::vector<std::byte> zeros(size);
    EXPECT_EQ(digest_of_zeros(key, size), digest_of(key, zeros)) << size;
  }
}

TEST(DigestOfZeros, DependsOnHowManyChunksThereAre) {
  const DigestKey key = random_key(8);
  EXPECT_NE(digest_of_zeros(key, kChunkBytes), digest_of_zeros(key, 2 * kChunkBytes));
}

}  // namespace
}  // namespace superpipe
