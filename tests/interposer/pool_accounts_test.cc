// What pools report beside what the driver knows of.
#include "interposer/pool_accounts.h"

#include <gtest/gtest.h>

#include <utility>

namespace superpipe {
namespace {

auto* const kPool = reinterpret_cast<CUmemoryPool>(0x10);
auto* const kOther = reinterpret_cast<CUmemoryPool>(0x20);

TEST(PoolAccounts, CountsByPoolAndForgetsFrees) {
  PoolAccounts accounts;
  accounts.on_allocate(kPool, 1, 100);
  accounts.on_allocate(kPool, 2, 50);
  accounts.on_allocate(kOther, 3, 7);
  const auto owner = accounts.take(1);
  ASSERT_TRUE(owner);
  EXPECT_EQ(accounts.usage(kPool).current, 50U);
  EXPECT_EQ(accounts.usage(kPool).high, 150U);
  EXPECT_EQ(accounts.usage(kOther).current, 7U);
  EXPECT_EQ(accounts.pool_of(3), kOther);
  EXPECT_EQ(accounts.pool_of(1), nullptr);
  accounts.reset_high(kPool);
  EXPECT_EQ(accounts.usage(kPool).high, 50U);
  accounts.put_back(1, *owner);
  EXPECT_EQ(accounts.usage(kPool).current, 150U);
  EXPECT_EQ(accounts.pool_of(1), kPool);
}

TEST(PoolAccounts, ServesPoolsOfTheDeviceAndThoseItNeverSaw) {
  PoolAccounts accounts;
  EXPECT_TRUE(accounts.can_serve(kPool, 0));
  accounts.set_device(kPool, 1);
  EXPECT_FALSE(accounts.can_serve(kPool, 0));
  EXPECT_TRUE(accounts.can_serve(kPool, 1));
  accounts.set_device(kPool, PoolAccounts::kElsewhere);
  EXPECT_FALSE(accounts.can_serve(kPool, 1));
}

TEST(PoolAccounts, CountsAllocationsOfADestroyedPoolForNoOther) {
  PoolAccounts accounts;
  accounts.set_device(kPool, PoolAccounts::kElsewhere);
  accounts.on_allocate(kPool, 1, 100);
  const PoolAccounts::Taken destroyed = accounts.take_pool(kPool);
  // Another comes at its handle.
  EXPECT_TRUE(accounts.can_serve(kPool, 0));
  accounts.on_allocate(kPool, 2, 50);
  EXPECT_EQ(accounts.usage(kPool).current, 50U);
  EXPECT_TRUE(accounts.take(1).has_value());
  EXPECT_EQ(accounts.usage(kPool).current, 50U);
}

TEST(PoolAccounts, KnowsAPoolAgainThatCouldNotBeDestroyed) {
  PoolAccounts accounts;
  accounts.set_device(kPool, PoolAccounts::kElsewhere);
  accounts.on_allocate(kPool, 1, 100);
  PoolAccounts::Taken taken = accounts.take_pool(kPool);
  EXPECT_TRUE(accounts.take(1).has_value());
  accounts.put_back(std::move(taken));
  EXPECT_FALSE(accounts.can_serve(kPool, 0));
  EXPECT_EQ(accounts.usage(kPool).current, 0U);
  EXPECT_EQ(accounts.usage(kPool).high, 100U);
}

TEST(PoolAccounts, ForgetsAllocationsWithTheirContextButNotWhereAPoolLies) {
  PoolAccounts accounts;
  accounts.set_device(kPool, 1);
  accounts.on_allocate(kPool, 1, 100);
  accounts.forget_allocations();
  EXPECT_EQ(accounts.usage(kPool).high, 0U);
  EXPECT_FALSE(accounts.take(1).has_value());
  EXPECT_FALSE(accounts.can_serve(kPool, 0));
  EXPECT_TRUE(accounts.can_serve(kPool, 1));
}

}  // namespace
}  // namespace superpipe
