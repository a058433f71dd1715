#include "tools/simgpu/driver/memory/allocation_table.h"

#include <gtest/gtest.h>

#include "tools/simgpu/driver/context/context.h"
#include "tools/simgpu/driver/device/device.h"

namespace simgpu {
namespace {

/// A table of its own, on the first device.
class AllocationTableTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(cuInit(0), CUDA_SUCCESS); }

  std::uint64_t allocate(std::uint64_t size, Context& context, AllocationSource source) {
    std::uint64_t address = 0;
    EXPECT_EQ(table_.allocate(context, find_device(0)->small_allocations(), size, source, nullptr,
                              &address),
              CUDA_SUCCESS);
    return address;
  }

  AllocationTable table_;
};

TEST_F(AllocationTableTest, FindsAnAllocationByItsBaseAndByAnyAddressInside) {
  Context context{*find_device(0), false, 0, 1};
  const std::uint64_t base = allocate(100, context, AllocationSource::kMemAlloc);
  EXPECT_TRUE(table_.find_at(base));
  EXPECT_FALSE(table_.find_at(base + 1));
  EXPECT_EQ(table_.find(base + 99)->base, base);
  EXPECT_FALSE(table_.find(base + 100)) << "the size asked for counts, not the page";
  EXPECT_TRUE(table_.touches(base + 100, 1));
  EXPECT_EQ(table_.remove(base), CUDA_SUCCESS);
  EXPECT_FALSE(table_.find_at(base));
  EXPECT_EQ(table_.remove(base), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(AllocationTableTest, AFreeBeginsForNewWorkAndFinishesForWorkThatRuns) {
  Context context{*find_device(0), false, 0, 1};
  const std::uint64_t base = allocate(100, context, AllocationSource::kPool);
  const std::uint64_t id = table_.begin_free(base);
  ASSERT_NE(id, 0U);
  EXPECT_EQ(table_.begin_free(base), 0U) << "it is freed once";
  EXPECT_FALSE(table_.find_at(base));
  EXPECT_FALSE(table_.find(base));
  EXPECT_TRUE(table_.find_accessible(base));
  table_.finish_free(base, id);
  EXPECT_FALSE(table_.find_accessible(base));
  EXPECT_EQ(table_.remove(base), CUDA_SUCCESS);
}

TEST_F(AllocationTableTest, ABlockGivenOutAgainIsNotTakenByTheFreeOfWhatItWas) {
  Context context{*find_device(0), false, 0, 1};
  const std::uint64_t base = allocate(100, context, AllocationSource::kPool);
  const std::uint64_t id = table_.begin_free(base);
  table_.revive(base, 50, context);
  EXPECT_NE(table_.find_at(base)->id, id);
  table_.finish_free(base, id);
  EXPECT_TRUE(table_.find_accessible(base));
  EXPECT_EQ(table_.find_at(base)->size, 50U);
  EXPECT_EQ(table_.remove(base), CUDA_SUCCESS);
}

TEST_F(AllocationTableTest, RemovesWhatCuMemAllocMadeInOneContextAndLeavesItsPools) {
  Context one{*find_device(0), false, 0, 1};
  Context other{*find_device(0), false, 0, 2};
  const std::uint64_t removed = allocate(100, one, AllocationSource::kMemAlloc);
  const std::uint64_t pooled = allocate(100, one, AllocationSource::kPool);
  const std::uint64_t elsewhere = allocate(100, other, AllocationSource::kMemAlloc);
  table_.remove_all_of(one);
  EXPECT_FALSE(table_.find_at(removed));
  EXPECT_TRUE(table_.find_at(pooled));
  EXPECT_TRUE(table_.find_at(elsewhere));
  ASSERT_EQ(table_.pool_allocations_of(one).size(), 1U);
  EXPECT_EQ(table_.pool_allocations_of(one)[0].base, pooled);
  EXPECT_EQ(table_.remove(pooled), CUDA_SUCCESS);
  EXPECT_EQ(table_.remove(elsewhere), CUDA_SUCCESS);
}

}  // namespace
}  // namespace simgpu
