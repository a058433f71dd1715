// What a host store may reserve and pin, counted.
#include "residency/host/host_cap.h"

#include <gtest/gtest.h>

namespace superpipe::testing {
namespace {

class HostCapTest : public ::testing::Test {
 protected:
  HostCap cap_{HostLimit{64_KiB}, nullptr};
};

TEST_F(HostCapTest, ReservesUpToTheLimit) {
  EXPECT_TRUE(cap_.reserve(48_KiB));
  EXPECT_FALSE(cap_.reserve(20_KiB));
  EXPECT_EQ(cap_.reserved(), 48_KiB) << "what was refused is not counted";
  EXPECT_TRUE(cap_.reserve(16_KiB));
  cap_.unreserve(48_KiB);
  EXPECT_EQ(cap_.reserved(), 16_KiB);
  EXPECT_EQ(cap_.words_of_others(), "");
}

TEST_F(HostCapTest, SlackFindsRoomBesideWhatIsReserved) {
  ASSERT_TRUE(cap_.reserve(62_KiB));
  EXPECT_TRUE(cap_.claim_slack(1_KiB));
  EXPECT_FALSE(cap_.claim_slack(2_KiB)) << "of 64 KiB, 63 are taken";
  EXPECT_FALSE(cap_.reserve(2_KiB));
  EXPECT_EQ(cap_.reachable(), 63_KiB);
  cap_.return_slack(1_KiB);
  EXPECT_TRUE(cap_.reserve(2_KiB));
}

TEST_F(HostCapTest, CountsWhatIsPinnedFromBeforeThePinUntilAfterItsEnd) {
  EXPECT_TRUE(cap_.begin_pin(48_KiB));
  EXPECT_EQ(cap_.pinned(), 48_KiB);
  EXPECT_FALSE(cap_.begin_pin(20_KiB));
  cap_.end_pin(48_KiB, /*pinned=*/true);
  cap_.begin_unpin(48_KiB);
  EXPECT_FALSE(cap_.begin_pin(20_KiB)) << "it may still be pinned";
  cap_.end_unpin(48_KiB, /*unpinned=*/true);
  EXPECT_EQ(cap_.pinned(), Bytes{});
  EXPECT_TRUE(cap_.begin_pin(64_KiB));
}

TEST_F(HostCapTest, WhatCouldNotBePinnedIsNotCountedAndWhatCouldNotBeUnpinnedIs) {
  ASSERT_TRUE(cap_.begin_pin(8_KiB));
  cap_.end_pin(8_KiB, /*pinned=*/false);
  EXPECT_EQ(cap_.pinned(), Bytes{});
  ASSERT_TRUE(cap_.begin_pin(8_KiB));
  cap_.end_pin(8_KiB, /*pinned=*/true);
  cap_.begin_unpin(8_KiB);
  cap_.end_unpin(8_KiB, /*unpinned=*/false);
  EXPECT_EQ(cap_.pinned(), 8_KiB);
}

TEST_F(HostCapTest, APinAheadLeavesRoomForWhatIsReserved) {
  ASSERT_TRUE(cap_.reserve(56_KiB));
  EXPECT_FALSE(cap_.begin_pin_ahead(12_KiB, Bytes{}));
  EXPECT_TRUE(cap_.begin_pin_ahead(8_KiB, Bytes{}));
  EXPECT_FALSE(cap_.begin_pin_ahead(4_KiB, 8_KiB)) << "what is idle takes its place, too";
}

TEST_F(HostCapTest, SaysWhenMoreWouldBePinnedThanWasEverReserved) {
  ASSERT_TRUE(cap_.reserve(8_KiB));
  cap_.unreserve(8_KiB);
  EXPECT_FALSE(cap_.is_beyond_use(16_KiB)) << "twice what was reserved at one time";
  EXPECT_TRUE(cap_.is_beyond_use(20_KiB));
}

}  // namespace
}  // namespace superpipe::testing
