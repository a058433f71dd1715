// Pinned host memory within its cap.
#include "residency/host_store.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "tests/residency/fake_device.h"

namespace superpipe::testing {
namespace {

class HostStoreTest : public ::testing::Test {
 protected:
  FakeDevice device_{{}};
  EventPool events_{device_};
  HostStore store_{device_, events_, 16_KiB, std::chrono::milliseconds{100}};
};

TEST_F(HostStoreTest, ReservesUpToItsCapAndNoFurther) {
  EXPECT_TRUE(store_.reserve(12_KiB));
  EXPECT_FALSE(store_.reserve(8_KiB));
  EXPECT_TRUE(store_.reserve(4_KiB));
  store_.unreserve(12_KiB);
  EXPECT_TRUE(store_.reserve(8_KiB));
  EXPECT_FALSE(store_.reserve(Bytes{~std::uint64_t{0}}));
}

TEST_F(HostStoreTest, BacksWithWholeMemoryPagesAndNotPowersOfTwo) {
  EXPECT_EQ(HostStore::backing_of(Bytes{1}), 4_KiB);
  EXPECT_EQ(HostStore::backing_of(20_KiB), 20_KiB);
  EXPECT_EQ(HostStore::backing_of(Bytes{20 * 1024 + 1}), 24_KiB);
}

TEST_F(HostStoreTest, ReusesASlabOnlyWhenItsTransfersAreDone) {
  const StreamHandle stream = device_.program_stream();
  const auto slab = store_.acquire(4_KiB, false);
  ASSERT_TRUE(slab.ok());
  device_.submit_blocking_host_function(stream);
  const auto event = events_.record(stream, 0);
  ASSERT_TRUE(event.ok());
  store_.release(*slab, {*event});
  const auto other = store_.acquire(4_KiB, false);
  ASSERT_TRUE(other.ok());
  EXPECT_NE(other->data, slab->data);
  device_.release_host_functions();
  device_.drain();
  slab->data[5] = std::byte{9};
  const auto again = store_.acquire(4_KiB, true);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->data, slab->data);
  EXPECT_EQ(again->data[5], std::byte{0}) << "asked for zeroes";
  EXPECT_EQ(store_.pinned(), 8_KiB);
}

TEST_F(HostStoreTest, DestroysIdleSlabsOfOtherSizesBeforeItRefuses) {
  for (int i = 0; i < 3; ++i) {
    const auto slab = store_.acquire(12_KiB, false);
    ASSERT_TRUE(slab.ok());
    store_.release(*slab, {});
    const auto other = store_.acquire(16_KiB, false);
    ASSERT_TRUE(other.ok());
    EXPECT_EQ(store_.acquire(4_KiB, false).status(), Status::kOutOfHostMemory);
    store_.release(*other, {});
  }
  store_.trim();
  EXPECT_EQ(store_.pinned(), Bytes{});
  EXPECT_EQ(device_.pinned_ranges(), 0U);
}

TEST_F(HostStoreTest, ReportsMemoryThatCannotBePinned) {
  device_.fail(Call::kPin, 1, Status::kOutOfHostMemory);
  EXPECT_EQ(store_.acquire(4_KiB, false).status(), Status::kOutOfHostMemory);
  EXPECT_EQ(store_.pinned(), Bytes{});
}

}  // namespace
}  // namespace superpipe::testing
