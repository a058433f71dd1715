// Decompressor: exact sizes, corrupt input, missing libraries.
#include "tools/simgpu/driver/code/decompressor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>

namespace simgpu {

// For GoogleTest, which finds it beside the type.
static void PrintTo(Compression compression, std::ostream* out) {
  *out << (compression == Compression::kLz4 ? "Lz4" : "Zstd");
}

namespace {

using Failure = Decompressor::Failure;

std::vector<std::byte> bytes_of(std::initializer_list<int> values) {
  std::vector<std::byte> bytes;
  for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

// "aaaaaaaaaaaaaaaa", written by hand from the formats' specifications.
// LZ4 block: a token with one literal and a match of 10 at distance 1, then the last five literals.
const std::vector<std::byte> kLz4 =
    bytes_of({0x16, 'a', 0x01, 0x00, 0x50, 'a', 'a', 'a', 'a', 'a'});
// zstd frame: magic, single segment of 16 bytes, one last RLE block of 16.
const std::vector<std::byte> kZstd =
    bytes_of({0x28, 0xb5, 0x2f, 0xfd, 0x20, 0x10, 0x83, 0x00, 0x00, 'a'});
const std::vector<std::byte> kPlain(16, static_cast<std::byte>('a'));

class Decompress : public ::testing::TestWithParam<Compression> {
 protected:
  [[nodiscard]] static const std::vector<std::byte>& payload() {
    return GetParam() == Compression::kLz4 ? kLz4 : kZstd;
  }
  Decompressor decompressor_;
};

TEST_P(Decompress, GivesTheOriginalBytes) {
  const auto result = decompressor_.decompress(GetParam(), payload(), 16);
  ASSERT_TRUE(std::holds_alternative<std::vector<std::byte>>(result));
  EXPECT_EQ(std::get<std::vector<std::byte>>(result), kPlain);
}

TEST_P(Decompress, RefusesAnotherSizeThanAnnounced) {
  for (const std::size_t size : {std::size_t{0}, std::size_t{15}, std::size_t{17}}) {
    const auto result = decompressor_.decompress(GetParam(), payload(), size);
    ASSERT_TRUE(std::holds_alternative<Failure>(result)) << size;
    EXPECT_EQ(std::get<Failure>(result), Failure::kCorrupt);
  }
}

TEST_P(Decompress, RefusesPayloadCutShort) {
  for (std::size_t size = 0; size < payload().size(); ++size) {
    const auto result =
        decompressor_.decompress(GetParam(), std::span(payload()).first(size), kPlain.size());
    ASSERT_TRUE(std::holds_alternative<Failure>(result)) << size;
  }
}

TEST_P(Decompress, RefusesSizesAboveTheLimitWithoutAllocating) {
  const auto result = decompressor_.decompress(GetParam(), payload(), Decompressor::kMaxBytes + 1);
  ASSERT_TRUE(std::holds_alternative<Failure>(result));
  EXPECT_EQ(std::get<Failure>(result), Failure::kCorrupt);
}

TEST_P(Decompress, SaysThatTheLibraryIsMissing) {
  Decompressor nowhere("libno-such-zstd.so", "libno-such-lz4.so");
  const auto result = nowhere.decompress(GetParam(), payload(), 16);
  ASSERT_TRUE(std::holds_alternative<Failure>(result));
  EXPECT_EQ(std::get<Failure>(result), Failure::kMissingLibrary);
  EXPECT_THAT(nowhere.library(GetParam()), ::testing::StartsWith("libno-such-"));
}

INSTANTIATE_TEST_SUITE_P(Formats, Decompress,
                         ::testing::Values(Compression::kLz4, Compression::kZstd),
                         ::testing::PrintToStringParamName());

}  // namespace
}  // namespace simgpu
