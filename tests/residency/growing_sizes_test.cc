// Slabs of sizes that grow from one use to the next.
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "residency/host/host_store.h"
#include "residency/streams/event_pool.h"
#include "tests/residency/fake_device.h"

namespace superpipe::testing {
namespace {

/// Ten caches, each of which is copied into a longer one again and again.
class GrowingSizesTest : public ::testing::Test {
 protected:
  static constexpr int kCaches = 10;
  static constexpr Bytes kFirst = 256_KiB;
  static constexpr Bytes kStep = 4_KiB;

  void grow(HostStore& store, int steps) {
    std::vector<Slab> caches;
    for (int i = 0; i < kCaches; ++i) caches.push_back(*store.acquire(kFirst, false));
    for (int step = 1; step <= steps; ++step) {
      const Bytes size = kFirst + kStep * static_cast<std::uint64_t>(step);
      for (Slab& cache : caches) {
        const auto longer = store.acquire(size, false);
        ASSERT_TRUE(longer.ok());
        EXPECT_EQ(longer->size, size);
        longer->data[size.count() - 1] = std::byte{1};
        store.release(std::exchange(cache, *longer), {});
      }
    }
    for (const Slab& cache : caches) store.release(cache, {});
  }

  FakeDevice device_{{}};
  EventPool events_{device_};
};

TEST_F(GrowingSizesTest, ASlabServesSeveralOfThem) {
  HostStore store(device_, events_, {1_GiB}, std::chrono::milliseconds{100});
  grow(store, 40);
  EXPECT_LT(store.pinned(), 24_MiB) << "one for each size of each cache takes 136";
  store.trim();
  EXPECT_EQ(store.pinned(), Bytes{});
  EXPECT_TRUE(store.reserve(1_GiB)) << "no slack is in use";
}

TEST_F(GrowingSizesTest, ASizeThatGrowsNoFurtherTakesOneSlab) {
  HostStore store(device_, events_, {1_GiB}, std::chrono::milliseconds{100});
  std::vector<Slab> smaller;
  for (int i = 0; i < 8; ++i) smaller.push_back(*store.acquire(kFirst, false));
  for (const Slab& slab : smaller) store.release(slab, {});
  store.release(*store.acquire(kFirst + kStep, false), {});
  const Bytes pinned = store.pinned();
  EXPECT_GT(pinned, 8 * kFirst + kFirst + kStep) << "it has slack";
  for (int i = 0; i < 100; ++i) store.release(*store.acquire(kFirst + kStep, false), {});
  EXPECT_EQ(store.pinned(), pinned);
}

TEST_F(GrowingSizesTest, WhatIsReservedFindsItsRoomBesideTheirSlack) {
  constexpr Bytes kLimit = 8_MiB;
  HostStore store(device_, events_, {kLimit}, std::chrono::milliseconds{100});
  std::vector<Slab> taken;
  for (Bytes size = kFirst; store.reserve(size); size += kStep) {
    // What is idle is too small by a little.
    std::vector<Slab> smaller;
    for (std::uint64_t i = 0; i < 8; ++i) {
      const auto slab = store.acquire(size - 4_KiB, false);
      if (slab.ok()) smaller.push_back(*slab);
    }
    for (const Slab& slab : smaller) store.release(slab, {});
    const auto slab = store.acquire(size, false);
    ASSERT_TRUE(slab.ok()) << taken.size();
    taken.push_back(*slab);
  }
  EXPECT_GT(taken.size(), 20U);
  EXPECT_LE(store.pinned(), kLimit);
  store.trim();
  EXPECT_GT(store.pinned(), store.reserved()) << "some slack is in use";
}

}  // namespace
}  // namespace superpipe::testing
