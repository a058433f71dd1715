// The address space of managed buffers.
#include "residency/pieces/arena.h"

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

// Wherever the reservation lies, a pair of small integers is no address in a buffer.
TEST(AddressRanges, LeavesOutAddressesThatLookLikeTwoIntegers) {
  for (const Address base : {Address{0x3'0200'0000}, Address{0x6B00'0000'0000}, Address{1} << 40}) {
    AddressRanges ranges(base, 1024_GiB, 2_MiB);
    Address end = base;
    for (int i = 0; i < 300; ++i) {
      const Bytes size = i % 3 == 0 ? 1000_MiB : 30_MiB;
      const auto range = ranges.take(size);
      ASSERT_TRUE(range);
      EXPECT_GE(*range, end) << i;
      end = *range + size.count();
      for (Address at = *range; at < end; at += std::uint64_t{2} << 20) {
        ASSERT_FALSE(looks_like_two_integers(at)) << std::hex << at;
      }
      ASSERT_FALSE(looks_like_two_integers(end - 1)) << std::hex << end;
    }
  }
}

TEST(AddressRanges, GivesLargeRangesAllTheSame) {
  AddressRanges ranges(Address{1} << 40, 64_GiB, 2_MiB);
  EXPECT_EQ(ranges.take(63_GiB), Address{1} << 40);
  EXPECT_TRUE(ranges.take(1_GiB)) << "the last of it";
  EXPECT_EQ(ranges.take(2_MiB), std::nullopt);
}

TEST(AddressRanges, UsesWhatWasLeftOutForSmallerRanges) {
  AddressRanges ranges(Address{1} << 40, 64_GiB, 2_MiB);
  Bytes taken;
  while (ranges.take(3_GiB)) taken += 3_GiB;
  while (ranges.take(2_MiB)) taken += 2_MiB;
  EXPECT_GE(taken, 64_GiB - 16 * 32_MiB);
}

TEST(Arena, FindsTheOwnerOfEveryGranuleAndOfTheOneBeforeTheFirst) {
  Arena arena(kBase, 1_MiB, 4_KiB);
  ASSERT_TRUE(arena.ok());
  const auto first = arena.take(8_KiB);
  const auto second = arena.take(8_KiB);
  ASSERT_TRUE(first && second);
  EXPECT_GE(*first, kBase + 4096) << "no guard before it";
  EXPECT_GE(*second, *first + 4 * 4096) << "no guard of two granules between them";
  arena.set_owner(*first, 8_KiB, 0);
  arena.set_owner(*second, 8_KiB, 7);
  EXPECT_EQ(arena.index_at(*first), 0U);
  EXPECT_EQ(arena.index_at(*first + 8191), 0U);
  EXPECT_EQ(arena.index_at(*first + 8192), Arena::kNobody);
  EXPECT_EQ(arena.index_at(*second - 4), 7U) << "of an array that begins at 1";
  EXPECT_EQ(arena.index_at(*second - 4097), Arena::kNobody);
  EXPECT_EQ(arena.index_at(*second + 1), 7U);
  EXPECT_EQ(arena.index_at(kBase - 1), Arena::kNobody);
  EXPECT_EQ(arena.index_at(kBase + (1 << 20)), Arena::kNobody);
  EXPECT_EQ(arena.index_at(0), Arena::kNobody);
  arena.set_owner(*first, 8_KiB, Arena::kNobody);
  EXPECT_EQ(arena.index_at(*first), Arena::kNobody);
  EXPECT_EQ(arena.index_at(*first - 1), Arena::kNobody);
}

}  // namespace
}  // namespace superpipe::testing
