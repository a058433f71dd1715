#include "tools/simgpu/driver/memory/allocation_table.h"

#include <gtest/gtest.h>

#include "tools/simgpu/driver/context/context.h"
#include "tools/simgpu/driver/device/device.h"
#include "tools/simgpu/driver/memory/memory_pool.h"
#include "tools/simgpu/driver/memory/pool_blocks.h"

namespace simgpu {
namespace {

/// A table of its own, on the first device.
class AllocationTableTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(cuInit(0), CUDA_SUCCESS); }

  std::uint64_t allocate(std::uint64_t size, Context& context) {
    std::uint64_t address = 0;
    EXPECT_EQ(table_.allocate(context, find_device(0)->small_allocations(), size, &address),
              CUDA_SUCCESS);
    return address;
  }
  /// A block at the beginning of a chunk of its own.
  std::uint64_t add_block(Context& context, const std::shared_ptr<MemoryPool>& pool,
                          std::uint64_t size) {
    const PhysicalPtr chunk = Physical::create(find_device(0)->small_allocations(), kGranularity);
    const std::uint64_t base = table_.map_chunk(chunk).value_or(0);
    table_.add_block(context, pool, {.base = base, .size = size, .physical = chunk});
    return base;
  }
  void remove_block(const MemoryPool& pool, std::uint64_t base) {
    EXPECT_NE(table_.remove_block(pool, base), nullptr);
    table_.unmap_chunk(base, kGranularity);
  }

  AllocationTable table_;
};

TEST_F(AllocationTableTest, FindsAnAllocationByItsBaseAndByAnyAddressInside) {
  Context context{*find_device(0), false, 0, 1};
  const std::uint64_t base = allocate(100, context);
  EXPECT_TRUE(table_.find_at(base));
  EXPECT_FALSE(table_.find_at(base + 1));
  EXPECT_EQ(table_.find(base + 99)->base, base);
  EXPECT_FALSE(table_.find(base + 100)) << "the size asked for counts, not the page";
  EXPECT_TRUE(table_.touches(base + 100, 1));
  EXPECT_EQ(table_.remove(base), CUDA_SUCCESS);
  EXPECT_FALSE(table_.find_at(base));
  EXPECT_EQ(table_.remove(base), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(AllocationTableTest, ABlocksLifeEndsWithItsFreeAndNotWhenTheHostAskedForIt) {
  Context context{*find_device(0), false, 0, 1};
  const auto pool = std::make_shared<MemoryPool>(*find_device(0), false);
  const std::uint64_t base = add_block(context, pool, 100);
  const std::weak_ptr<const AllocationLife> watched = table_.find_at(base)->life;
  const std::uint64_t id = table_.find_at(base)->id;
  auto freeing = table_.remove_block(*pool, base);
  EXPECT_EQ(table_.remove_block(*pool, base), nullptr) << "it is freed once";
  EXPECT_FALSE(table_.find_at(base));
  EXPECT_FALSE(watched.expired());
  AllocationLife again = *freeing;
  again.size = 50;
  table_.add_block(context, pool, again);
  EXPECT_NE(table_.find_at(base)->id, id);
  freeing.reset();
  EXPECT_TRUE(watched.expired());
  EXPECT_EQ(table_.find_at(base)->size, 50U);
  remove_block(*pool, base);
}

TEST_F(AllocationTableTest, ABlockIsFreeFromItsFreeToTheEndOfItsChunk) {
  Context context{*find_device(0), false, 0, 1};
  const auto pool = std::make_shared<MemoryPool>(*find_device(0), false);
  const std::uint64_t base = add_block(context, pool, 100);
  EXPECT_EQ(table_.free_block_at(base), FreeBlock::kNo);
  EXPECT_EQ(table_.free_block_at(base + 100), FreeBlock::kNo)
      << "a kernel may be given a block's end";
  EXPECT_EQ(table_.free_block_at(base + 101), FreeBlock::kNo) << "the padding is nobody else's";
  EXPECT_EQ(table_.free_block_at(base + kPoolBlock), FreeBlock::kNo) << "it may be rounded up";
  EXPECT_EQ(table_.free_block_at(base + kPoolBlock + 1), FreeBlock::kYes);
  EXPECT_EQ(table_.free_block_at(base + kGranularity), FreeBlock::kNo) << "of no chunk";
  EXPECT_NE(table_.remove_block(*pool, base), nullptr);
  EXPECT_EQ(table_.free_block_at(base), FreeBlock::kYes);
  table_.unmap_chunk(base, kGranularity);
  EXPECT_EQ(table_.free_block_at(base), FreeBlock::kNo);
  const std::uint64_t whole = allocate(100, context);
  EXPECT_EQ(table_.free_block_at(whole + 101), FreeBlock::kNo) << "a mistake, but in no pool";
  EXPECT_EQ(table_.remove(whole), CUDA_SUCCESS);
}

TEST_F(AllocationTableTest, AFreedBlockBehindAnotherIsToldFromThatOnesEnd) {
  Context context{*find_device(0), false, 0, 1};
  const auto pool = std::make_shared<MemoryPool>(*find_device(0), false);
  const PhysicalPtr chunk = Physical::create(find_device(0)->small_allocations(), kGranularity);
  const std::uint64_t base = table_.map_chunk(chunk).value_or(0);
  const std::uint64_t behind = base + 2 * kPoolBlock;
  const auto add = [&](std::uint64_t address, std::uint64_t size) {
    table_.add_block(context, pool, {.base = address, .size = size, .physical = chunk});
  };
  const auto remove = [&](std::uint64_t address) {
    EXPECT_NE(table_.remove_block(*pool, address), nullptr);
  };
  add(base, 2 * kPoolBlock);
  EXPECT_EQ(table_.free_block_at(behind), FreeBlock::kNo) << "no block ever began there";
  add(behind, 100);
  remove(behind);
  EXPECT_EQ(table_.free_block_at(behind), FreeBlock::kPerhaps);
  remove(base);
  EXPECT_EQ(table_.free_block_at(behind), FreeBlock::kYes);
  add(base, 2 * kPoolBlock);
  EXPECT_EQ(table_.free_block_at(behind), FreeBlock::kNo) << "a younger block ends there";
  add(behind, 100);
  remove(behind);
  remove(base);
  add(base, 2 * kPoolBlock - 1);
  add(behind, 100);
  EXPECT_EQ(table_.free_block_at(behind), FreeBlock::kNo);
  remove(behind);
  EXPECT_EQ(table_.free_block_at(behind), FreeBlock::kYes) << "the other's end is elsewhere";
  remove(base);
  table_.unmap_chunk(base, kGranularity);
  const std::uint64_t again = table_.map_chunk(chunk).value_or(0);
  ASSERT_EQ(again, base);
  add(base, 100);
  remove(base);
  add(base, kPoolBlock);
  EXPECT_EQ(table_.free_block_at(behind), FreeBlock::kYes);
  remove(base);
  table_.unmap_chunk(base, kGranularity);
}

TEST(AllocationLife, BeginsWhenAllThatComesBeforeItIsSettled) {
  EXPECT_TRUE(AllocationLife{}.begun());
  const auto first = std::make_shared<Completion>();
  const auto second = std::make_shared<Completion>();
  const AllocationLife life{
      .base = 0,
      .size = 1,
      .physical = nullptr,
      .after = std::make_shared<EarlierOperations>(std::vector{first, second})};
  first->settle(0);
  EXPECT_FALSE(life.begun());
  second->settle(0);
  EXPECT_TRUE(life.begun());
}

TEST(EarlierOperations, AreForgottenAsTheySettle) {
  auto first = std::make_shared<Completion>();
  auto second = std::make_shared<Completion>();
  const std::weak_ptr<Completion> watched_first = first;
  const std::weak_ptr<Completion> watched_second = second;
  EarlierOperations operations{{first, second}};
  first->settle(0);
  first.reset();
  EXPECT_FALSE(operations.settled());
  EXPECT_TRUE(watched_first.expired());
  second->settle(0);
  second.reset();
  EXPECT_TRUE(operations.settled());
  EXPECT_TRUE(watched_second.expired());
  EXPECT_TRUE(operations.settled());
}

TEST_F(AllocationTableTest, ABlockIsFreedThroughItsPoolOnly) {
  Context context{*find_device(0), false, 0, 1};
  const auto pool = std::make_shared<MemoryPool>(*find_device(0), false);
  const MemoryPool other{*find_device(0), false};
  const std::uint64_t base = add_block(context, pool, 100);
  EXPECT_EQ(table_.remove(base), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(table_.remove_block(other, base), nullptr);
  remove_block(*pool, base);
}

TEST_F(AllocationTableTest, RemovesWhatCuMemAllocMadeInOneContextAndLeavesItsPools) {
  Context one{*find_device(0), false, 0, 1};
  Context other{*find_device(0), false, 0, 2};
  const std::uint64_t removed = allocate(100, one);
  const auto pool = std::make_shared<MemoryPool>(*find_device(0), false);
  const std::uint64_t pooled = add_block(one, pool, 100);
  const std::uint64_t elsewhere = allocate(100, other);
  table_.remove_all_of(one);
  EXPECT_FALSE(table_.find_at(removed));
  EXPECT_TRUE(table_.find_at(pooled));
  EXPECT_TRUE(table_.find_at(elsewhere));
  ASSERT_EQ(table_.pool_allocations_of(one).size(), 1U);
  EXPECT_EQ(table_.pool_allocations_of(one)[0].base, pooled);
  remove_block(*pool, pooled);
  EXPECT_EQ(table_.remove(elsewhere), CUDA_SUCCESS);
}

}  // namespace
}  // namespace simgpu
