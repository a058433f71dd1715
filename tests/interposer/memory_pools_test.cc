// Memory pools, what they report beside what the driver knows of, and handles that come again.
#include "interposer/allocators/memory_pools.h"

#include <gtest/gtest.h>

namespace superpipe {
namespace {

auto* const kHandle = reinterpret_cast<CUmemoryPool>(0x10);
auto* const kOther = reinterpret_cast<CUmemoryPool>(0x20);

TEST(MemoryPools, CountByPoolAndForgetFrees) {
  MemoryPools pools;
  const MemoryPoolPtr first = pools.at(kHandle);
  const MemoryPoolPtr second = pools.at(kOther);
  pools.on_allocate(1, {first, 100});
  pools.on_allocate(2, {first, 50});
  pools.on_allocate(3, {second, 7});
  const auto allocation = pools.take(1);
  ASSERT_TRUE(allocation);
  EXPECT_FALSE(pools.take(1));
  EXPECT_EQ(first->usage().current, 50U);
  EXPECT_EQ(first->usage().high, 150U);
  EXPECT_EQ(second->usage().current, 7U);
  EXPECT_EQ(pools.pool_of(3), kOther);
  EXPECT_EQ(pools.pool_of(1), nullptr);
  first->reset_high();
  EXPECT_EQ(first->usage().high, 50U);
  pools.on_allocate(1, *allocation);
  EXPECT_EQ(first->usage().current, 150U);
  EXPECT_EQ(pools.pool_of(1), kHandle);
}

TEST(MemoryPools, ServeThoseOfTheDeviceAndThoseNotSeenMade) {
  MemoryPools pools;
  EXPECT_EQ(pools.at(nullptr), nullptr);
  EXPECT_TRUE(pools.at(kHandle)->can_serve(0));
  EXPECT_EQ(pools.at(kHandle), pools.at(kHandle));
  pools.on_created(kHandle, 1);
  EXPECT_FALSE(pools.at(kHandle)->can_serve(0));
  EXPECT_TRUE(pools.at(kHandle)->can_serve(1));
  pools.on_created(kHandle, MemoryPool::kElsewhere);
  EXPECT_FALSE(pools.at(kHandle)->can_serve(1));
}

TEST(MemoryPools, AreNotServedOnceDestroyed) {
  MemoryPools pools;
  const MemoryPoolPtr pool = pools.at(kHandle);
  EXPECT_TRUE(pool->can_serve(0));
  pool->on_destroyed();
  EXPECT_FALSE(pool->can_serve(0));
  EXPECT_EQ(pools.at(kHandle), pool) << "a call that was given the handle before";
}

TEST(MemoryPools, CountAllocationsOfADestroyedPoolForNoOther) {
  MemoryPools pools;
  const MemoryPoolPtr old = pools.at(kHandle);
  pools.on_allocate(1, {old, 100});
  // The driver makes another pool at the handle, in another thread, before the destruction is
  // noted.
  pools.on_created(kHandle, 0);
  old->on_destroyed();
  const MemoryPoolPtr next = pools.at(kHandle);
  EXPECT_TRUE(next->can_serve(0));
  pools.on_allocate(2, {next, 50});
  EXPECT_EQ(next->usage().current, 50U);
  EXPECT_TRUE(pools.take(1));
  EXPECT_EQ(next->usage().current, 50U);
  EXPECT_EQ(old->usage().current, 0U);
}

TEST(MemoryPools, ForgetAllocationsWithTheirContextButNotWhereTheyLie) {
  MemoryPools pools;
  pools.on_created(kHandle, MemoryPool::kElsewhere);
  pools.on_allocate(1, {pools.at(kHandle), 100});
  pools.forget_allocations();
  EXPECT_EQ(pools.at(kHandle)->usage().high, 0U);
  EXPECT_FALSE(pools.take(1));
  EXPECT_FALSE(pools.at(kHandle)->can_serve(0));
}

}  // namespace
}  // namespace superpipe
