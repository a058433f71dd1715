#include "interposer/unmanaged_memory.h"

#include <gtest/gtest.h>

#include "interposer/pool_accounts.h"

namespace superpipe {
namespace {

constexpr std::int64_t kMiB = 1 << 20;
auto* const kPool = reinterpret_cast<CUmemoryPool>(0x10);
auto* const kOther = reinterpret_cast<CUmemoryPool>(0x20);

/// Allocates as a hook does; the pool then holds `reserved`. @return all that this adds.
UnmanagedChange allocate(UnmanagedMemory& memory, Bytes size, CUmemoryPool pool, Bytes reserved) {
  const UnmanagedChange asked = memory.take({size, pool});
  return asked + memory.settle(pool, reserved);
}

TEST(UnmanagedMemory, ForgetsAnAllocationOnce) {
  UnmanagedMemory memory;
  EXPECT_TRUE(memory.remember(0x1000, {Bytes{700}}));
  EXPECT_EQ(memory.forget(0x1000)->size, Bytes{700});
  EXPECT_FALSE(memory.forget(0x1000));
}

TEST(UnmanagedMemory, SharesBlocksBetweenSmallAllocations) {
  UnmanagedMemory memory;
  EXPECT_EQ(memory.take({1_MiB}).taken, 2 * kMiB);
  EXPECT_EQ(memory.take({1_MiB - Bytes{511}}).taken, 0);  // rounded to 512 B: the block is full
  EXPECT_EQ(memory.take({Bytes{1}}).taken, 2 * kMiB);
  EXPECT_EQ(memory.give_back({1_MiB}).taken, -2 * kMiB);
  EXPECT_EQ(memory.give_back({Bytes{1}}).taken, 0);
  EXPECT_EQ(memory.give_back({1_MiB - Bytes{511}}).taken, -2 * kMiB);
}

TEST(UnmanagedMemory, GivesPoolsBlocksApart) {
  UnmanagedMemory memory;
  EXPECT_EQ(memory.take({Bytes{512}}).taken, 2 * kMiB);
  EXPECT_EQ(allocate(memory, Bytes{512}, kPool, 2_MiB).taken, 2 * kMiB);
  EXPECT_EQ(allocate(memory, Bytes{512}, kPool, 2_MiB).taken, 0);
  EXPECT_EQ(allocate(memory, Bytes{512}, kOther, 2_MiB).taken, 2 * kMiB);
  EXPECT_EQ(memory.give_back({Bytes{512}}).taken, -2 * kMiB);
}

TEST(UnmanagedMemory, CountsThatPoolsKeepTheirBlocks) {
  UnmanagedMemory memory;
  EXPECT_EQ(allocate(memory, 1_MiB, kPool, 2_MiB).taken, 2 * kMiB);
  EXPECT_EQ(memory.give_back({1_MiB, kPool}).taken, 0);
  EXPECT_EQ(allocate(memory, 1_MiB, kPool, 2_MiB).taken, 0);
}

TEST(UnmanagedMemory, BelievesTheDriverAboutPools) {
  UnmanagedMemory memory;
  EXPECT_EQ(allocate(memory, 1_MiB, kPool, 2_MiB).taken, 2 * kMiB);
  EXPECT_EQ(allocate(memory, 1_MiB, kPool, 32_MiB).taken, 30 * kMiB);
  EXPECT_EQ(allocate(memory, 1_MiB, kPool, 2_MiB).taken, 0);  // another thread was told more
  EXPECT_EQ(allocate(memory, 40_MiB, kPool, 64_MiB).taken, 32 * kMiB);  // one count, not two
}

TEST(UnmanagedMemory, KeepsHeadroomForTheNextGrowthOfAPool) {
  UnmanagedMemory memory;
  EXPECT_EQ(memory.take({Bytes{512}}).headroom, 0) << "without pools nothing grows by itself";
  EXPECT_EQ(memory.take({Bytes{512}, kPool}), (UnmanagedChange{2 * kMiB, 2 * kMiB}));
  EXPECT_EQ(memory.settle(kPool, Bytes{512}), UnmanagedChange{});
  // It grew although what it holds, packed, had room: what was headroom is taken, and as much kept.
  EXPECT_EQ(allocate(memory, Bytes{512}, kPool, 4_MiB), (UnmanagedChange{2 * kMiB, 0}));
  // It grew by more than was thought: the next time it may again.
  EXPECT_EQ(allocate(memory, Bytes{512}, kPool, 36_MiB), (UnmanagedChange{32 * kMiB, 30 * kMiB}));
  EXPECT_EQ(memory.peak(), 38_MiB) << "headroom is not taken";
}

TEST(UnmanagedMemory, KeepsHeadroomForEveryCallUnderWay) {
  UnmanagedMemory memory;
  EXPECT_EQ(memory.take({Bytes{512}, kPool}).headroom, 2 * kMiB);
  EXPECT_EQ(memory.take({Bytes{512}, kPool}).headroom, 2 * kMiB);
  EXPECT_EQ(memory.take({Bytes{512}, kOther}).headroom, 2 * kMiB);
  EXPECT_EQ(memory.refuse({Bytes{512}, kOther}).headroom, -2 * kMiB);
  EXPECT_EQ(memory.settle(kPool, 2_MiB).headroom, -2 * kMiB);
  EXPECT_EQ(memory.settle(kPool, 2_MiB).headroom, 0);
}

TEST(UnmanagedMemory, CountsWhatCodeTakesAndGivesBack) {
  UnmanagedMemory memory;
  EXPECT_EQ(memory.begin_code(CodeChange::kLoad), (UnmanagedChange{0, 2 * kMiB}));
  EXPECT_EQ(memory.end_code(CodeChange::kLoad, 10_MiB, 13_MiB),
            (UnmanagedChange{4 * kMiB, -2 * kMiB}));
  EXPECT_EQ(memory.peak_headroom(), Bytes{}) << "it does not last";
  EXPECT_EQ(memory.begin_code(CodeChange::kUnload), UnmanagedChange{});
  EXPECT_EQ(memory.end_code(CodeChange::kUnload, 13_MiB, 11_MiB).taken, -2 * kMiB);
  memory.begin_code(CodeChange::kUnload);
  EXPECT_EQ(memory.end_code(CodeChange::kUnload, 11_MiB, 1_MiB).taken, -2 * kMiB)
      << "no more than there was";
}

TEST(UnmanagedMemory, TakesNothingForCodeThatCannotBeIt) {
  UnmanagedMemory memory;
  memory.begin_code(CodeChange::kLoad);
  EXPECT_EQ(memory.end_code(CodeChange::kLoad, 10_MiB, 1_MiB).taken, 0);
  memory.begin_code(CodeChange::kLoad);
  EXPECT_EQ(memory.end_code(CodeChange::kLoad, 10_MiB, 20_GiB).taken, 0);
  memory.begin_code(CodeChange::kUnload);
  EXPECT_EQ(memory.end_code(CodeChange::kUnload, 10_MiB, 20_MiB).taken, 0);
}

TEST(UnmanagedMemory, ForgetsAPoolWithItsLastAllocation) {
  UnmanagedMemory memory;
  allocate(memory, Bytes{512}, kPool, 32_MiB);
  EXPECT_EQ(memory.forget_pool(kPool), (UnmanagedChange{-30 * kMiB, 0}));
  EXPECT_EQ(memory.give_back({Bytes{512}, kPool}), (UnmanagedChange{-2 * kMiB, -32 * kMiB}));
  EXPECT_EQ(memory.forget_pool(kPool), UnmanagedChange{});
}

TEST(UnmanagedMemory, GivesLargeAllocationsBlocksOfTheirOwn) {
  UnmanagedMemory memory;
  EXPECT_EQ(memory.take({1_MiB + Bytes{1}}).taken, 2 * kMiB);
  EXPECT_EQ(memory.take({3_MiB}).taken, 4 * kMiB);
  EXPECT_EQ(memory.give_back({3_MiB}).taken, -4 * kMiB);
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
