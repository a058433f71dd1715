// Freed buffers by the size of their pages, and by age.
#include "residency/pieces/buffer_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

namespace superpipe::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

constexpr BufferId id(std::uint32_t n) { return BufferId{n}; }

class BufferCacheTest : public ::testing::Test {
 protected:
  void insert(std::uint32_t n, Bytes footprint) {
    cache_.expect(footprint);
    cache_.insert(id(n), footprint, footprint);
  }

  BufferCache cache_;
};

TEST_F(BufferCacheTest, HoldsTheBuffersOfOneFootprintOldestFirst) {
  insert(3, 4_KiB);
  insert(1, 4_KiB);
  insert(2, 8_KiB);
  EXPECT_THAT(cache_.of(4_KiB), ElementsAre(id(3), id(1)));
  EXPECT_THAT(cache_.of(8_KiB), ElementsAre(id(2)));
  EXPECT_THAT(cache_.of(12_KiB), IsEmpty());
}

TEST_F(BufferCacheTest, PutsABufferBackAsTheOldest) {
  insert(3, 4_KiB);
  insert(1, 4_KiB);
  cache_.expect(4_KiB);
  cache_.insert_oldest(id(9), 4_KiB, 4_KiB);
  EXPECT_THAT(cache_.of(4_KiB), ElementsAre(id(9), id(3), id(1)));
  EXPECT_EQ(cache_.bytes(), 12_KiB);
}

TEST_F(BufferCacheTest, TakesOutOnlyWhatItHolds) {
  insert(3, 4_KiB);
  insert(1, 4_KiB);
  EXPECT_FALSE(cache_.erase(id(2), 4_KiB, 4_KiB));
  EXPECT_FALSE(cache_.erase(id(3), 8_KiB, 8_KiB));
  EXPECT_EQ(cache_.bytes(), 8_KiB);
  EXPECT_TRUE(cache_.erase(id(3), 4_KiB, 4_KiB));
  EXPECT_FALSE(cache_.erase(id(3), 4_KiB, 4_KiB)) << "it is out already";
  EXPECT_THAT(cache_.of(4_KiB), ElementsAre(id(1)));
  EXPECT_EQ(cache_.bytes(), 4_KiB);
}

TEST_F(BufferCacheTest, CountsTheBytesOfAllFootprints) {
  EXPECT_EQ(cache_.bytes(), Bytes{});
  insert(1, 4_KiB);
  insert(2, 8_KiB);
  EXPECT_EQ(cache_.bytes(), 12_KiB);
  EXPECT_TRUE(cache_.erase(id(1), 4_KiB, 4_KiB));
  EXPECT_EQ(cache_.bytes(), 8_KiB);
}

TEST_F(BufferCacheTest, CountsNoBufferThatIsOnlyExpected) {
  cache_.expect(4_KiB);
  EXPECT_EQ(cache_.bytes(), Bytes{});
  EXPECT_THAT(cache_.of(4_KiB), IsEmpty());
  EXPECT_THAT(cache_.oldest_of_each_size(), IsEmpty());
}

TEST_F(BufferCacheTest, NamesTheOldestOfEachSize) {
  insert(3, 4_KiB);
  insert(1, 4_KiB);
  insert(2, 8_KiB);
  insert(5, 12_KiB);
  EXPECT_TRUE(cache_.erase(id(5), 12_KiB, 12_KiB));
  EXPECT_THAT(cache_.oldest_of_each_size(), UnorderedElementsAre(id(3), id(2)));
}

// Whoever caches a buffer cannot deal with a failure any more.
TEST_F(BufferCacheTest, AllocatesNothingForABufferThatWasExpected) {
  constexpr std::uint32_t kBuffers = 100;
  for (std::uint32_t i = 0; i < kBuffers; ++i) cache_.expect(4_KiB);
  const std::size_t capacity = cache_.of(4_KiB).capacity();
  ASSERT_GE(capacity, kBuffers);
  for (std::uint32_t i = 0; i < kBuffers; ++i) cache_.insert(id(i), 4_KiB, 4_KiB);
  EXPECT_EQ(cache_.of(4_KiB).capacity(), capacity);
  EXPECT_EQ(cache_.of(4_KiB).size(), kBuffers);
}

TEST_F(BufferCacheTest, MakesRoomForEveryLaterBufferToo) {
  for (std::uint32_t i = 0; i < 300; ++i) {
    cache_.expect(4_KiB);
    ASSERT_GT(cache_.of(4_KiB).capacity(), i) << "all that exist may be cached at once";
    if (i % 3 == 0) cache_.insert(id(i), 4_KiB, 4_KiB);
  }
}

TEST_F(BufferCacheTest, KeepsTheRoomOfTheOthersWhenOneBufferIsNoMore) {
  insert(1, 4_KiB);
  cache_.expect(4_KiB);
  cache_.unexpect(4_KiB);
  EXPECT_THAT(cache_.of(4_KiB), ElementsAre(id(1)));
  EXPECT_TRUE(cache_.erase(id(1), 4_KiB, 4_KiB));
  cache_.insert(id(1), 4_KiB, 4_KiB);
  EXPECT_THAT(cache_.of(4_KiB), ElementsAre(id(1)));
}

TEST_F(BufferCacheTest, KnowsNothingOfAFootprintWithoutBuffers) {
  cache_.expect(4_KiB);
  cache_.unexpect(4_KiB);
  EXPECT_THAT(cache_.of(4_KiB), IsEmpty());
  EXPECT_FALSE(cache_.erase(id(1), 4_KiB, 4_KiB));
  insert(2, 4_KiB);
  EXPECT_THAT(cache_.of(4_KiB), ElementsAre(id(2)));
}

class BusyBufferCacheTest : public BufferCacheTest {
 protected:
  /// What is busy once it is known that the buffers of `over` are in no use.
  Bytes busy_after(const std::set<std::uint32_t>& over) {
    cache_.settle([&](BufferId buffer) { return over.count(index_of(buffer)) > 0; },
                  [](BufferId) { return 4_KiB; });
    return cache_.busy_bytes();
  }
};

TEST_F(BusyBufferCacheTest, TakesBuffersToBeBusyUntilToldOtherwise) {
  insert(1, 4_KiB);
  insert(2, 4_KiB);
  EXPECT_EQ(cache_.busy_bytes(), 8_KiB);
  EXPECT_EQ(busy_after({1}), 4_KiB);
  EXPECT_EQ(busy_after({}), 4_KiB) << "nothing uses a freed buffer again";
  EXPECT_EQ(busy_after({2}), Bytes{});
  insert(3, 4_KiB);
  EXPECT_EQ(cache_.busy_bytes(), 4_KiB);
}

TEST_F(BusyBufferCacheTest, ForgetsBuffersThatAreTakenOut) {
  insert(1, 4_KiB);
  insert(2, 4_KiB);
  EXPECT_EQ(busy_after({1}), 4_KiB);
  EXPECT_TRUE(cache_.erase(id(2), 4_KiB, 4_KiB));
  EXPECT_EQ(cache_.busy_bytes(), Bytes{});
  EXPECT_TRUE(cache_.erase(id(1), 4_KiB, 4_KiB));
  EXPECT_EQ(cache_.busy_bytes(), Bytes{});
  cache_.insert(id(2), 4_KiB, 4_KiB);
  EXPECT_EQ(cache_.busy_bytes(), 4_KiB) << "it was used again since";
}

TEST_F(BusyBufferCacheTest, WhatIsPutBackAsTheOldestIsAsBusyAsTheNext) {
  insert(1, 4_KiB);
  cache_.expect(4_KiB);
  cache_.insert_oldest(id(2), 4_KiB, 4_KiB);
  EXPECT_EQ(cache_.busy_bytes(), 8_KiB);
  EXPECT_EQ(busy_after({1, 2}), Bytes{});
  cache_.expect(4_KiB);
  cache_.insert_oldest(id(3), 4_KiB, 4_KiB);
  EXPECT_EQ(cache_.busy_bytes(), Bytes{});
  EXPECT_TRUE(cache_.erase(id(3), 4_KiB, 4_KiB));
  EXPECT_EQ(cache_.busy_bytes(), Bytes{});
}

TEST_F(BufferCacheTest, ForgetsAllButTheRoomWhenCleared) {
  insert(1, 4_KiB);
  insert(2, 4_KiB);
  insert(3, 8_KiB);
  cache_.settle([](BufferId) { return true; }, [](BufferId) { return 4_KiB; });
  cache_.clear();
  EXPECT_EQ(cache_.bytes(), Bytes{});
  EXPECT_EQ(cache_.busy_bytes(), Bytes{});
  EXPECT_THAT(cache_.of(4_KiB), IsEmpty());
  EXPECT_THAT(cache_.oldest_of_each_size(), IsEmpty());
  EXPECT_GE(cache_.of(4_KiB).capacity(), 2U);
  cache_.insert(id(2), 4_KiB, 4_KiB);
  EXPECT_THAT(cache_.of(4_KiB), ElementsAre(id(2)));
}

}  // namespace
}  // namespace superpipe::testing
