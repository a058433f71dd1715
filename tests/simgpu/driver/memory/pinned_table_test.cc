#include "tools/simgpu/driver/memory/pinned_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace simgpu {
namespace {

using ::testing::ElementsAre;
using ::testing::Field;

// Only compared, never looked into.
Context* const kFirst = reinterpret_cast<Context*>(0x10);
Context* const kSecond = reinterpret_cast<Context*>(0x20);

PinnedRange range(std::uint64_t base, std::uint64_t size, Context* context = kFirst) {
  PinnedRange made;
  made.base = base;
  made.size = size;
  made.context = context;
  return made;
}

TEST(PinnedTable, RefusesRangesThatOverlap) {
  PinnedTable table;
  ASSERT_TRUE(table.add(range(1000, 100)));
  EXPECT_FALSE(table.add(range(1000, 100)));
  EXPECT_FALSE(table.add(range(950, 51)));
  EXPECT_FALSE(table.add(range(1099, 10)));
  EXPECT_FALSE(table.add(range(900, 400)));
  EXPECT_TRUE(table.add(range(950, 50)));
  EXPECT_TRUE(table.add(range(1100, 10)));
}

TEST(PinnedTable, FindsTheRangeThatAnAddressLiesIn) {
  PinnedTable table;
  ASSERT_TRUE(table.add(range(1000, 100)));
  EXPECT_FALSE(table.find(999));
  EXPECT_EQ(table.find(1000)->base, 1000U);
  EXPECT_EQ(table.find(1099)->base, 1000U);
  EXPECT_FALSE(table.find(1100));
}

TEST(PinnedTable, RemovesARangeOnlyInTheWayItWasMade) {
  PinnedTable table;
  PinnedRange registered = range(1000, 100);
  registered.registered = true;
  ASSERT_TRUE(table.add(registered));
  EXPECT_FALSE(table.remove(1000, false));
  EXPECT_FALSE(table.remove(1001, true));
  EXPECT_TRUE(table.remove(1000, true));
  EXPECT_FALSE(table.find(1000));
}

TEST(PinnedTable, RemovesTheRangesOfOneContext) {
  PinnedTable table;
  ASSERT_TRUE(table.add(range(1000, 100, kFirst)));
  ASSERT_TRUE(table.add(range(2000, 100, kSecond)));
  ASSERT_TRUE(table.add(range(3000, 100, kFirst)));
  EXPECT_THAT(table.remove_all_of(*kFirst),
              ElementsAre(Field(&PinnedRange::base, 1000), Field(&PinnedRange::base, 3000)));
  EXPECT_TRUE(table.find(2000));
}

}  // namespace
}  // namespace simgpu
