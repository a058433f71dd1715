// Whether the link has enough to do.
#include "residency/transfers_under_way.h"

#include <gtest/gtest.h>

#include "residency/event_pool.h"
#include "tests/residency/fake_device.h"

namespace superpipe::testing {
namespace {

/// An event like one that is recorded; nobody asks the device about it.
EventRef event() {
  static auto* const device = new FakeDevice(FakeDevice::Options{});
  static auto* const pool = new EventPool(*device);
  auto prepared = pool->prepare();
  return prepared.ok() ? *prepared : nullptr;
}

/// Room of which what is under way takes little.
constexpr Bytes kLargeRoom{TransfersUnderWay::kPartsOfRoom *
                           TransfersUnderWay::kEnoughBytes.count()};

TEST(TransfersUnderWay, FewAreNeverEnough) {
  TransfersUnderWay transfers;
  for (std::size_t i = 1; i < TransfersUnderWay::kEnoughTransfers; ++i) {
    transfers.add(event(), TransfersUnderWay::kEnoughBytes);
    EXPECT_FALSE(transfers.is_enough(kLargeRoom)) << i;
  }
  transfers.add(event(), Bytes{1});
  EXPECT_TRUE(transfers.is_enough(kLargeRoom));
}

TEST(TransfersUnderWay, OfTwoOneComesNext) {
  TransfersUnderWay transfers;
  transfers.add(event(), Bytes{1});
  EXPECT_FALSE(transfers.has_next());
  transfers.add(event(), Bytes{1});
  EXPECT_TRUE(transfers.has_next());
}

TEST(TransfersUnderWay, SmallOnesAreEnoughOnlyTogether) {
  TransfersUnderWay transfers;
  const Bytes part{TransfersUnderWay::kEnoughBytes.count() / 16};
  for (int i = 1; i < 16; ++i) transfers.add(event(), part);
  EXPECT_FALSE(transfers.is_enough(kLargeRoom));
  transfers.add(event(), part);
  EXPECT_TRUE(transfers.is_enough(kLargeRoom));
}

TEST(TransfersUnderWay, OfLittleRoomTheyTakeAPart) {
  TransfersUnderWay transfers;
  const Bytes room{kLargeRoom.count() / 4};
  const Bytes part{TransfersUnderWay::kEnoughBytes.count() / 16};
  for (int i = 1; i < 4; ++i) transfers.add(event(), part);
  EXPECT_FALSE(transfers.is_enough(room));
  transfers.add(event(), part);
  EXPECT_TRUE(transfers.is_enough(room));
  EXPECT_FALSE(transfers.is_enough(kLargeRoom));
}

TEST(TransfersUnderWay, EndInTheOrderInWhichTheyBegan) {
  TransfersUnderWay transfers;
  const EventRef first = event();
  const EventRef second = event();
  transfers.add(first, TransfersUnderWay::kEnoughBytes);
  transfers.add(second, TransfersUnderWay::kEnoughBytes);
  EXPECT_EQ(transfers.oldest(), first);
  transfers.drop_oldest();
  EXPECT_EQ(transfers.oldest(), second);
}

TEST(TransfersUnderWay, WhatTakesNoTimeDoesNotCount) {
  TransfersUnderWay transfers;
  for (std::size_t i = 0; i < 2 * TransfersUnderWay::kEnoughTransfers; ++i) {
    transfers.add(nullptr, TransfersUnderWay::kEnoughBytes);
  }
  EXPECT_FALSE(transfers.is_enough(kLargeRoom));
}

}  // namespace
}  // namespace superpipe::testing
