#include "interposer/unmanaged_memory.h"

#include <gtest/gtest.h>

#include "interposer/pool_accounts.h"

namespace superpipe {
namespace {

TEST(UnmanagedMemory, ForgetsAnAllocationOnce) {
  UnmanagedMemory memory;
  EXPECT_TRUE(memory.remember(0x1000, {Bytes{700}}));
  EXPECT_EQ(memory.forget(0x1000)->size, Bytes{700});
  EXPECT_FALSE(memory.forget(0x1000));
}

TEST(UnmanagedMemory, SharesBlocksBetweenSmallAllocations) {
  UnmanagedMemory memory;
  EXPECT_EQ(memory.take({1_MiB}), 2_MiB);
  EXPECT_EQ(memory.take({1_MiB - Bytes{511}}), Bytes{});  // rounded to 512 B: the block is full
  EXPECT_EQ(memory.take({Bytes{1}}), 2_MiB);
  EXPECT_EQ(memory.give_back({1_MiB}), 2_MiB);
  EXPECT_EQ(memory.give_back({Bytes{1}}), Bytes{});
  EXPECT_EQ(memory.give_back({1_MiB - Bytes{511}}), 2_MiB);
}

TEST(UnmanagedMemory, GivesPoolsBlocksApart) {
  UnmanagedMemory memory;
  EXPECT_EQ(memory.take({Bytes{512}}), 2_MiB);
  EXPECT_EQ(memory.take({Bytes{512}, true}), 2_MiB);
  EXPECT_EQ(memory.take({Bytes{512}, true}), Bytes{});
  EXPECT_EQ(memory.give_back({Bytes{512}}), 2_MiB);
}

TEST(UnmanagedMemory, CountsThatPoolsKeepTheirBlocks) {
  UnmanagedMemory memory;
  EXPECT_EQ(memory.take({1_MiB, true}), 2_MiB);
  EXPECT_EQ(memory.give_back({1_MiB, true}), Bytes{});
  EXPECT_EQ(memory.take({1_MiB, true}), Bytes{});
}

TEST(UnmanagedMemory, BelievesTheDriverAboutPools) {
  UnmanagedMemory memory;
  memory.take({1_MiB, true});
  EXPECT_EQ(memory.note_pools(2_MiB), Bytes{});
  EXPECT_EQ(memory.note_pools(32_MiB), 30_MiB);
  EXPECT_EQ(memory.note_pools(2_MiB), Bytes{});
}

TEST(UnmanagedMemory, GivesLargeAllocationsBlocksOfTheirOwn) {
  UnmanagedMemory memory;
  EXPECT_EQ(memory.take({1_MiB + Bytes{1}}), 2_MiB);
  EXPECT_EQ(memory.take({3_MiB}), 4_MiB);
  EXPECT_EQ(memory.give_back({3_MiB}), 4_MiB);
}

TEST(UnmanagedMemory, KeepsThePeakAfterFrees) {
  UnmanagedMemory memory;
  memory.take({2_MiB});
  memory.take({4_MiB});
  memory.give_back({2_MiB});
  memory.take({Bytes{1}});
  EXPECT_EQ(memory.peak(), 6_MiB);
}

TEST(PoolAccounts, CountsByPoolAndForgetsFrees) {
  PoolAccounts accounts;
  auto* const first = reinterpret_cast<CUmemoryPool>(0x10);
  auto* const second = reinterpret_cast<CUmemoryPool>(0x20);
  accounts.on_allocate(first, 1, 100);
  accounts.on_allocate(first, 2, 50);
  accounts.on_allocate(second, 3, 7);
  const auto owner = accounts.take(1);
  ASSERT_TRUE(owner);
  EXPECT_EQ(accounts.usage(first).current, 50U);
  EXPECT_EQ(accounts.usage(first).high, 150U);
  EXPECT_EQ(accounts.usage(second).current, 7U);
  EXPECT_EQ(accounts.pool_of(3), second);
  EXPECT_EQ(accounts.pool_of(1), nullptr);
  accounts.reset_high(first);
  EXPECT_EQ(accounts.usage(first).high, 50U);
  accounts.put_back(1, *owner);
  EXPECT_EQ(accounts.usage(first).current, 150U);
  EXPECT_EQ(accounts.pool_of(1), first);
}

TEST(PoolAccounts, ServesPoolsOfTheDeviceAndThoseItNeverSaw) {
  PoolAccounts accounts;
  auto* const pool = reinterpret_cast<CUmemoryPool>(0x10);
  EXPECT_TRUE(accounts.can_serve(pool, 0));
  accounts.set_device(pool, 1);
  EXPECT_FALSE(accounts.can_serve(pool, 0));
  EXPECT_TRUE(accounts.can_serve(pool, 1));
  accounts.set_device(pool, PoolAccounts::kElsewhere);
  EXPECT_FALSE(accounts.can_serve(pool, 1));
  accounts.forget(pool);
  EXPECT_TRUE(accounts.can_serve(pool, 0));
}

TEST(PoolAccounts, ForgetsAllocationsWithTheirContextButNotThePools) {
  PoolAccounts accounts;
  auto* const pool = reinterpret_cast<CUmemoryPool>(0x10);
  accounts.set_device(pool, PoolAccounts::kElsewhere);
  accounts.on_allocate(pool, 1, 100);
  accounts.forget_allocations();
  EXPECT_EQ(accounts.usage(pool).current, 0U);
  EXPECT_FALSE(accounts.can_serve(pool, 0));
}

}  // namespace
}  // namespace superpipe
