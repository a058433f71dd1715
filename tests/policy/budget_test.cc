#include "policy/budget.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/policy/properties.h"

namespace superpipe {
namespace {

using ::testing::Optional;

constexpr Bytes kDevice = 16_GiB;

TEST(ParseSize, ReadsBytesAndPowersOf1024) {
  EXPECT_THAT(parse_size("0", kDevice), Optional(Bytes{0}));
  EXPECT_THAT(parse_size("1048576", kDevice), Optional(1_MiB));
  EXPECT_THAT(parse_size("16K", kDevice), Optional(16_KiB));
  EXPECT_THAT(parse_size("512M", kDevice), Optional(512_MiB));
  EXPECT_THAT(parse_size("3G", kDevice), Optional(3_GiB));
  EXPECT_THAT(parse_size("2T", kDevice), Optional(2048_GiB));
  EXPECT_THAT(parse_size("16KiB", kDevice), Optional(16_KiB));
  EXPECT_THAT(parse_size("2gib", kDevice), Optional(2_GiB));
  EXPECT_THAT(parse_size("18446744073709551615", kDevice), Optional(Bytes{~std::uint64_t{0}}));
}

TEST(ParseSize, ReadsDecimalsOfAUnit) {
  EXPECT_THAT(parse_size("1.5G", kDevice), Optional(1536_MiB));
  EXPECT_THAT(parse_size("0.25M", kDevice), Optional(256_KiB));
  EXPECT_THAT(parse_size("0.1K", kDevice), Optional(Bytes{102}));
}

TEST(ParseSize, ReadsAShareOfTheDevice) {
  EXPECT_THAT(parse_size("50%", kDevice), Optional(8_GiB));
  EXPECT_THAT(parse_size("12.5%", kDevice), Optional(2_GiB));
  EXPECT_THAT(parse_size("100%", kDevice), Optional(kDevice));
  EXPECT_TRUE(parse_size("50%")->is_percentage());
  EXPECT_FALSE(parse_size("50")->is_percentage());
}

TEST(ParseSize, RefusesWhatIsNoSize) {
  for (const char* const text : {"",
                                 " ",
                                 "G",
                                 "1.5",
                                 "1.",
                                 ".5G",
                                 "-1",
                                 "+1",
                                 "1 G",
                                 " 1G",
                                 "1G ",
                                 "1KB",
                                 "1B",
                                 "1Ki",
                                 "1GiBs",
                                 "1E",
                                 "0x10",
                                 "0%",
                                 "100.1%",
                                 "-5%",
                                 "%",
                                 "1e9",
                                 "nan",
                                 "inf",
                                 "1,5G",
                                 "1..5G",
                                 "18446744073709551616",
                                 "16777216T",
                                 "1.2345678901234567G",
                                 "5%%",
                                 "5G%"}) {
    EXPECT_EQ(parse_size(text, kDevice), std::nullopt) << '"' << text << '"';
  }
}

TEST(FormatBytes, UsesTheLargestUnitAndOneDecimal) {
  EXPECT_EQ(exact_bytes(4_KiB), "4096 bytes (4 KiB)");
  EXPECT_EQ(format_bytes(Bytes{0}), "0 B");
  EXPECT_EQ(format_bytes(Bytes{1023}), "1023 B");
  EXPECT_EQ(format_bytes(1_KiB), "1 KiB");
  EXPECT_EQ(format_bytes(1536_MiB), "1.5 GiB");
  EXPECT_EQ(format_bytes(16_MiB), "16 MiB");
  EXPECT_EQ(format_bytes(1_MiB - Bytes{1}), "1 MiB");
  EXPECT_EQ(format_bytes(5000 * 1024_GiB), "5000 TiB");
}

RC_GTEST_PROP(ParseSize, ReadsWhatItsBytesPrintAs, (std::uint64_t count)) {
  const auto size = parse_size(std::to_string(count), kDevice);
  RC_ASSERT(size.has_value());
  RC_ASSERT(size->count() == count);
}

RC_GTEST_PROP(FormatBytes, IsReadBackWithinATwentieth, (std::uint32_t count)) {
  std::string text = format_bytes(Bytes{count});
  text.erase(text.find(' '), 1);
  if (text.back() == 'B' && text.find('i') == std::string::npos) text.pop_back();
  const auto size = parse_size(text, kDevice);
  RC_ASSERT(size.has_value());
  const auto read = static_cast<double>(size->count());
  RC_ASSERT(read >= 0.95 * count && read <= 1.05 * count);
}

}  // namespace
}  // namespace superpipe
