// How large pieces are under which budget.
#include "policy/piece_size.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>

namespace superpipe::testing {
namespace {

constexpr Bytes kGranule = 2_MiB;

TEST(PieceSize, IsAFiveHundredthOfALargeBudget) {
  EXPECT_EQ(piece_size_for(16_GiB, kGranule), 32_MiB);
  EXPECT_EQ(piece_size_for(15_GiB, kGranule), 16_MiB) << "a power of two";
}

TEST(PieceSize, IsWorthTheCostOfAMap) {
  EXPECT_EQ(piece_size_for(1_GiB, kGranule), 16_MiB);
  EXPECT_EQ(piece_size_for(512_MiB, kGranule), 16_MiB);
}

TEST(PieceSize, IsTheUsualOneWithoutABudget) {
  EXPECT_EQ(piece_size_for(std::nullopt, kGranule), 16_MiB);
  EXPECT_EQ(piece_size_for(std::nullopt, 32_MiB), 32_MiB) << "the granule";
}

TEST(PieceSize, LeavesRoomForManyPiecesOfASmallBudget) {
  EXPECT_EQ(piece_size_for(200_MiB, kGranule), 4_MiB);
  EXPECT_EQ(piece_size_for(256_MiB, kGranule), 8_MiB);
  EXPECT_EQ(piece_size_for(1_MiB, Bytes{4096}), Bytes{32768});
}

TEST(PieceSize, IsNeverBelowTheGranuleNorTooLargeToPrefetch) {
  EXPECT_EQ(piece_size_for(Bytes{}, kGranule), kGranule);
  EXPECT_EQ(piece_size_for(10_MiB, kGranule), kGranule);
  EXPECT_EQ(piece_size_for(1024_GiB, kGranule), 32_MiB);
}

TEST(PieceSize, IsAPowerOfTwoForEachBudget) {
  for (std::uint64_t mib = 1; mib < 200'000; mib = mib * 9 / 8 + 1) {
    EXPECT_TRUE(std::has_single_bit(piece_size_for(Bytes{mib << 20}, kGranule).count())) << mib;
  }
}

}  // namespace
}  // namespace superpipe::testing
