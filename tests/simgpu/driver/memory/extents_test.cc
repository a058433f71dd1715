#include "tools/simgpu/driver/memory/extents.h"

#include <gtest/gtest.h>

namespace {

using simgpu::Extents;

TEST(Extents, TakesTheLowestRangeThatFits) {
  Extents extents{0, 100};
  EXPECT_EQ(extents.take(10, 1), 0U);
  EXPECT_EQ(extents.take(10, 1), 10U);
  extents.give_back(0, 10);
  EXPECT_EQ(extents.take(20, 1), 20U);
  EXPECT_EQ(extents.take(10, 1), 0U);
}

TEST(Extents, HonoursAlignmentAndKeepsWhatItSkips) {
  Extents extents{3, 100};
  EXPECT_EQ(extents.take(10, 16), 16U);
  EXPECT_EQ(extents.take(13, 1), 3U);
}

TEST(Extents, GivesNothingWhenNothingFits) {
  Extents extents{0, 100};
  EXPECT_EQ(extents.take(101, 1), std::nullopt);
  EXPECT_EQ(extents.take(100, 1), 0U);
  EXPECT_EQ(extents.take(1, 1), std::nullopt);
}

TEST(Extents, JoinsNeighboursOnBothSides) {
  Extents extents{0, 30};
  for (int part = 0; part < 3; ++part) ASSERT_TRUE(extents.take(10, 1));
  extents.give_back(0, 10);
  extents.give_back(20, 10);
  EXPECT_EQ(extents.take(20, 1), std::nullopt);
  extents.give_back(10, 10);
  EXPECT_EQ(extents.take(30, 1), 0U);
}

}  // namespace
