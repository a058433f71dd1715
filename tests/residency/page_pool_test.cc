// Pages that no buffer holds.
#include "residency/pieces/page_pool.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/residency/fake_device.h"

namespace superpipe::testing {
namespace {

TEST(PagePool, GivesBackExactlyTheSizeAskedForAndDestroysOnDemand) {
  FakeDevice device({});
  const auto windows = device.reserve(1_MiB);
  PagePool pool(device, *windows, 1_MiB, 4_KiB);
  auto small = pool.create(4_KiB);
  auto large = pool.create(8_KiB);
  ASSERT_TRUE(small.ok() && large.ok());
  const PageHandle handle = small->handle;
  pool.put(std::move(*small));
  pool.put(std::move(*large));
  EXPECT_EQ(pool.idle_bytes(), 12_KiB);
  EXPECT_FALSE(pool.take(12_KiB));
  auto again = pool.take(4_KiB);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->handle, handle);
  EXPECT_EQ(pool.destroy(*again), Status::kOk);
  auto rest = pool.take_any();
  ASSERT_TRUE(rest);
  EXPECT_EQ(pool.destroy(*rest), Status::kOk);
  EXPECT_TRUE(pool.empty());
  EXPECT_EQ(device.device_bytes(), Bytes{});
  EXPECT_EQ(device.mapped_ranges(), 0U);
}

TEST(PagePool, ExpectsPagesOfASizeUntilAsManyHaveComeAsItWasTold) {
  FakeDevice device({});
  const auto windows = device.reserve(1_MiB);
  PagePool pool(device, *windows, 1_MiB, 4_KiB);
  auto page = pool.create(4_KiB);
  ASSERT_TRUE(page.ok());
  EXPECT_FALSE(pool.expects(4_KiB));
  pool.expect(4_KiB);
  pool.expect(4_KiB);
  EXPECT_FALSE(pool.expects(8_KiB));
  pool.cease_to_expect(4_KiB);
  EXPECT_TRUE(pool.expects(4_KiB));
  pool.cease_to_expect(4_KiB);
  EXPECT_FALSE(pool.expects(4_KiB));
  EXPECT_EQ(pool.destroy(*page), Status::kOk);
}

TEST(PagePool, LeavesNothingBehindWhenMappingFails) {
  FakeDevice device({});
  const auto windows = device.reserve(1_MiB);
  PagePool pool(device, *windows, 1_MiB, 4_KiB);
  device.fail(Call::kMap, 1, Status::kDeviceError);
  EXPECT_EQ(pool.create(4_KiB).status(), Status::kDeviceError);
  EXPECT_EQ(device.device_bytes(), Bytes{});
}

TEST(PagePool, DestroysTheRestAtTheSecondTryWhenTheFirstFailedHalfWay) {
  FakeDevice device({});
  const auto windows = device.reserve(1_MiB);
  PagePool pool(device, *windows, 1_MiB, 4_KiB);
  auto page = pool.create(4_KiB);
  ASSERT_TRUE(page.ok());
  device.fail(Call::kDestroyPages, 1, Status::kDeviceError);
  EXPECT_EQ(pool.destroy(*page), Status::kDeviceError);
  EXPECT_EQ(pool.destroy(*page), Status::kOk);
  EXPECT_EQ(device.violations(), std::vector<std::string>{});
}

}  // namespace
}  // namespace superpipe::testing
