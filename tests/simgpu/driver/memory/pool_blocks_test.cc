#include "tools/simgpu/driver/memory/pool_blocks.h"

#include <gtest/gtest.h>

namespace simgpu {
namespace {

constexpr std::uint64_t kChunk = 8 * kPoolBlock;

bool anybody(const FreePoint& freed) { return freed.done == nullptr; }
bool everything(const FreePoint& /*freed*/) { return true; }

/// A free on `stream` that has not completed.
FreePoint pending_on(std::uint64_t stream) {
  return {.point = {stream, 1}, .done = std::make_shared<Completion>()};
}

/// Two chunks of eight blocks, at 0x10000 and 0x20000.
class PoolBlocksTest : public ::testing::Test {
 protected:
  void SetUp() override {
    blocks_.add_chunk({.base = 0x10000, .size = kChunk});
    blocks_.add_chunk({.base = 0x20000, .size = kChunk});
  }
  /// Takes `count` blocks that are free for everybody. 0 if there is no such run.
  std::uint64_t take(std::uint64_t count) {
    const auto taken = blocks_.take(count * kPoolBlock, anybody);
    return taken ? taken->address : 0;
  }

  PoolBlocks blocks_;
};

TEST_F(PoolBlocksTest, TakesFromTheSmallestRunThatFits) {
  EXPECT_EQ(take(5), 0x10000U);
  EXPECT_EQ(take(4), 0x20000U) << "three are left of the first chunk";
  EXPECT_EQ(take(3), 0x10000 + 5 * kPoolBlock);
  EXPECT_EQ(take(5), 0U);
  EXPECT_EQ(take(4), 0x20000 + 4 * kPoolBlock);
}

TEST_F(PoolBlocksTest, NeighboursMergeWhenTheyAreFreeForEverybody) {
  EXPECT_EQ(take(8), 0x10000U);
  EXPECT_EQ(take(8), 0x20000U);
  blocks_.give_back(0x10000, 4 * kPoolBlock, {});
  EXPECT_EQ(take(8), 0U);
  blocks_.give_back(0x10000 + 4 * kPoolBlock, 4 * kPoolBlock, {});
  EXPECT_EQ(take(8), 0x10000U);
}

TEST_F(PoolBlocksTest, ARunMayBeOfBlocksThatWereFreedAtDifferentPoints) {
  EXPECT_EQ(take(8), 0x10000U);
  EXPECT_EQ(take(8), 0x20000U);
  blocks_.give_back(0x10000, 4 * kPoolBlock, pending_on(1));
  blocks_.give_back(0x10000 + 4 * kPoolBlock, 4 * kPoolBlock, pending_on(2));
  EXPECT_EQ(take(1), 0U);
  const auto of_first =
      blocks_.take(5 * kPoolBlock, [](const FreePoint& freed) { return freed.point.stream == 1; });
  EXPECT_FALSE(of_first);
  const auto taken = blocks_.take(5 * kPoolBlock, everything);
  ASSERT_TRUE(taken);
  EXPECT_EQ(taken->address, 0x10000U);
  EXPECT_EQ(taken->pending.size(), 2U);
  EXPECT_EQ(blocks_.pending().size(), 1U) << "what is left of the second";
  blocks_.free_for_everybody(everything);
  EXPECT_EQ(take(3), 0x10000 + 5 * kPoolBlock);
}

TEST_F(PoolBlocksTest, OnlyUnusedMemoryIsFresh) {
  EXPECT_TRUE(blocks_.take(4 * kPoolBlock, anybody)->fresh);
  blocks_.give_back(0x10000, 4 * kPoolBlock, {});
  EXPECT_FALSE(blocks_.take(6 * kPoolBlock, anybody)->fresh) << "some of it was used";
  EXPECT_TRUE(blocks_.take(2 * kPoolBlock, anybody)->fresh);
}

TEST_F(PoolBlocksTest, AChunkIsIdleWhenAllOfItIsUsable) {
  EXPECT_EQ(take(2), 0x10000U);
  ASSERT_EQ(blocks_.idle_chunks(anybody).size(), 1U);
  EXPECT_EQ(blocks_.idle_chunks(anybody)[0].base, 0x20000U);
  blocks_.give_back(0x10000, 2 * kPoolBlock, pending_on(1));
  EXPECT_EQ(blocks_.idle_chunks(anybody).size(), 1U);
  EXPECT_EQ(blocks_.idle_chunks(everything).size(), 2U);
  blocks_.remove_chunk(0x10000);
  EXPECT_TRUE(blocks_.pending().empty());
  EXPECT_EQ(take(8), 0x20000U);
  EXPECT_EQ(take(1), 0U);
}

}  // namespace
}  // namespace simgpu
