// The address space of managed buffers.
#include "residency/arena.h"

#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <vector>

namespace superpipe::testing {
namespace {

constexpr Address kBase = 0x10000000;

TEST(AddressRanges, ReusesTheLastFreedRangeOfTheSameSize) {
  AddressRanges ranges(kBase, 64_KiB, 4_KiB);
  const auto a = ranges.take(8_KiB);
  const auto b = ranges.take(8_KiB);
  ASSERT_TRUE(a && b);
  ranges.give_back(*a, 8_KiB);
  ranges.give_back(*b, 8_KiB);
  EXPECT_EQ(ranges.take(8_KiB), b);
  EXPECT_EQ(ranges.take(8_KiB), a);
}

TEST(AddressRanges, MergesFreedRangesBeforeItGivesUp) {
  AddressRanges ranges(kBase, 64_KiB, 4_KiB);
  std::vector<Address> taken;
  while (const auto range = ranges.take(4_KiB)) taken.push_back(*range);
  EXPECT_EQ(taken.size(), 16U);
  EXPECT_EQ(std::set<Address>(taken.begin(), taken.end()).size(), 16U);
  for (const Address range : {taken[3], taken[5], taken[4]}) ranges.give_back(range, 4_KiB);
  EXPECT_EQ(ranges.take(12_KiB), taken[3]);
  EXPECT_EQ(ranges.take(4_KiB), std::nullopt);
  for (const Address range : taken) {
    if (range < taken[3] || range > taken[5]) ranges.give_back(range, 4_KiB);
  }
  ranges.give_back(taken[3], 12_KiB);
  EXPECT_EQ(ranges.take(64_KiB), kBase);
}

TEST(AddressRanges, SplitsALargerRangeWhenNothingElseIsLeft) {
  AddressRanges ranges(kBase, 16_KiB, 4_KiB);
  ASSERT_EQ(ranges.take(12_KiB), kBase);
  ASSERT_EQ(ranges.take(4_KiB), kBase + 12 * 1024);
  ranges.give_back(kBase, 12_KiB);
  EXPECT_EQ(ranges.take(4_KiB), kBase);
  EXPECT_EQ(ranges.take(8_KiB), kBase + 4 * 1024);
  EXPECT_EQ(ranges.take(4_KiB), std::nullopt);
}

TEST(Arena, FindsTheOwnerOfEveryGranuleAndNobodyInTheGuard) {
  Arena arena(kBase, 1_MiB, 4_KiB);
  ASSERT_TRUE(arena.ok());
  const auto first = arena.take(8_KiB);
  const auto second = arena.take(8_KiB);
  ASSERT_TRUE(first && second);
  EXPECT_GE(*second, *first + 3 * 4096) << "no guard granule between them";
  arena.set_owner(*first, 8_KiB, 0);
  arena.set_owner(*second, 8_KiB, 7);
  EXPECT_EQ(arena.index_at(*first), 0U);
  EXPECT_EQ(arena.index_at(*first + 8191), 0U);
  EXPECT_EQ(arena.index_at(*first + 8192), Arena::kNobody);
  EXPECT_EQ(arena.index_at(*second + 1), 7U);
  EXPECT_EQ(arena.index_at(kBase - 1), Arena::kNobody);
  EXPECT_EQ(arena.index_at(kBase + (1 << 20)), Arena::kNobody);
  EXPECT_EQ(arena.index_at(0), Arena::kNobody);
  arena.set_owner(*first, 8_KiB, Arena::kNobody);
  EXPECT_EQ(arena.index_at(*first), Arena::kNobody);
}

}  // namespace
}  // namespace superpipe::testing
