#include "tools/simgpu/driver/process/configuration.h"

#include <gtest/gtest.h>

namespace {

TEST(ParseSize, TakesUnitsAsPowersOf1024) {
  std::uint64_t bytes = 0;
  EXPECT_TRUE(simgpu::parse_size("16G", &bytes));
  EXPECT_EQ(bytes, std::uint64_t{16} << 30);
  EXPECT_TRUE(simgpu::parse_size("3MiB", &bytes));
  EXPECT_EQ(bytes, std::uint64_t{3} << 20);
  EXPECT_TRUE(simgpu::parse_size("4096", &bytes));
  EXPECT_EQ(bytes, 4096U);
}

TEST(ParseSize, RefusesAnythingElseAndLeavesTheOutputAlone) {
  std::uint64_t bytes = 42;
  for (const char* text :
       {"", "G", "-1", "1.5G", "1 G", "1GB", "1X", "99999999999999999999", "17179869184G"}) {
    EXPECT_FALSE(simgpu::parse_size(text, &bytes)) << text;
  }
  EXPECT_EQ(bytes, 42U);
}

}  // namespace
