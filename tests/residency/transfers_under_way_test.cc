// Whether the link has enough to do.
#include "residency/transfer/transfers_under_way.h"

#include <gtest/gtest.h>

#include <chrono>

#include "residency/streams/event_pool.h"
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

/// The link's speed where it was not measured.
constexpr double kNobodyKnows = 0;

/// When the first transfer begins.
constexpr TransfersUnderWay::TimePoint kBegin{std::chrono::seconds{1}};

TEST(TransfersUnderWay, FewAreNeverEnough) {
  TransfersUnderWay transfers;
  for (std::size_t i = 1; i < TransfersUnderWay::kEnoughTransfers; ++i) {
    transfers.add(event(), TransfersUnderWay::kEnoughBytes, kBegin);
    EXPECT_FALSE(transfers.is_enough(kLargeRoom, kNobodyKnows, kBegin)) << i;
  }
  transfers.add(event(), Bytes{1}, kBegin);
  EXPECT_TRUE(transfers.is_enough(kLargeRoom, kNobodyKnows, kBegin));
}

TEST(TransfersUnderWay, OfTwoOneComesNext) {
  TransfersUnderWay transfers;
  transfers.add(event(), Bytes{1}, kBegin);
  EXPECT_FALSE(transfers.has_next());
  transfers.add(event(), Bytes{1}, kBegin);
  EXPECT_TRUE(transfers.has_next());
}

TEST(TransfersUnderWay, SmallOnesAreEnoughOnlyTogether) {
  TransfersUnderWay transfers;
  const Bytes part{TransfersUnderWay::kEnoughBytes.count() / 16};
  for (int i = 1; i < 16; ++i) transfers.add(event(), part, kBegin);
  EXPECT_FALSE(transfers.is_enough(kLargeRoom, kNobodyKnows, kBegin));
  transfers.add(event(), part, kBegin);
  EXPECT_TRUE(transfers.is_enough(kLargeRoom, kNobodyKnows, kBegin));
}

TEST(TransfersUnderWay, OfLittleRoomTheyTakeAPart) {
  TransfersUnderWay transfers;
  const Bytes room{kLargeRoom.count() / 4};
  const Bytes part{TransfersUnderWay::kEnoughBytes.count() / 16};
  for (int i = 1; i < 4; ++i) transfers.add(event(), part, kBegin);
  EXPECT_FALSE(transfers.is_enough(room, kNobodyKnows, kBegin));
  transfers.add(event(), part, kBegin);
  EXPECT_TRUE(transfers.is_enough(room, kNobodyKnows, kBegin));
  EXPECT_FALSE(transfers.is_enough(kLargeRoom, kNobodyKnows, kBegin));
}

TEST(TransfersUnderWay, OneBehindTheOneOnTheLinkIsEnoughIfItTakesLong) {
  constexpr double kLink = 1e9;
  constexpr Bytes kLong{2'100'000};
  TransfersUnderWay transfers;
  transfers.add(event(), kLong, kBegin);
  EXPECT_FALSE(transfers.is_enough(kLargeRoom, kLink, kBegin)) << "nothing may come behind it";
  transfers.add(event(), kLong, kBegin);
  EXPECT_TRUE(transfers.is_enough(kLargeRoom, kLink, kBegin));
  EXPECT_FALSE(transfers.is_enough(kLargeRoom, 2 * kLink, kBegin)) << "it takes a millisecond";
  EXPECT_FALSE(transfers.is_enough(kLargeRoom, kNobodyKnows, kBegin));
}

TEST(TransfersUnderWay, OutlastTheWriteBackOfWhatGoesNext) {
  constexpr double kLink = 1e9;
  constexpr Bytes kBytes{10'000'000};  // 10 ms
  TransfersUnderWay transfers;
  transfers.add(event(), kBytes, kBegin);
  transfers.add(event(), kBytes, kBegin);
  transfers.note_eviction(kBytes);
  // 20 ms are left, and a write-back takes 10 ms and a fourth.
  EXPECT_TRUE(transfers.is_enough(kLargeRoom, kLink, kBegin));
  EXPECT_TRUE(transfers.is_enough(kLargeRoom, kLink, kBegin + std::chrono::milliseconds{7}));
  EXPECT_FALSE(transfers.is_enough(kLargeRoom, kLink, kBegin + std::chrono::milliseconds{8}));
}

TEST(TransfersUnderWay, OneThatIsLateTakesNoMoreTimeThanItHas) {
  constexpr double kLink = 1e9;
  constexpr Bytes kBytes{10'000'000};
  TransfersUnderWay transfers;
  transfers.add(event(), kBytes, kBegin);
  transfers.add(event(), kBytes, kBegin);
  transfers.note_eviction(Bytes{kBytes.count() / 2});
  EXPECT_TRUE(transfers.is_enough(kLargeRoom, kLink, kBegin + std::chrono::milliseconds{100}));
}

TEST(TransfersUnderWay, OverASlowLinkManyAreNotEnoughIfTheyDoNotOutlastAWriteBack) {
  constexpr double kLink = 1e9;
  constexpr Bytes kBytes{10'000'000};
  TransfersUnderWay transfers;
  for (std::size_t i = 0; i < TransfersUnderWay::kEnoughTransfers; ++i) {
    transfers.add(event(), kBytes, kBegin);
  }
  EXPECT_TRUE(transfers.is_enough(kLargeRoom, kLink, kBegin));
  transfers.note_eviction(3 * kBytes);
  EXPECT_FALSE(transfers.is_enough(kLargeRoom, kLink, kBegin));
}

TEST(TransfersUnderWay, ForgetWriteBacksBehindEvictionsWithout) {
  constexpr double kLink = 1e9;
  constexpr Bytes kBytes{10'000'000};
  TransfersUnderWay transfers;
  transfers.add(event(), kBytes, kBegin);
  transfers.add(event(), kBytes, kBegin);
  transfers.note_eviction(10 * kBytes);
  for (std::size_t i = 1; i < TransfersUnderWay::kLastEvictions; ++i) {
    transfers.note_eviction(Bytes{});
    EXPECT_FALSE(transfers.is_enough(kLargeRoom, kLink, kBegin)) << i;
  }
  transfers.note_eviction(Bytes{});
  EXPECT_TRUE(transfers.is_enough(kLargeRoom, kLink, kBegin));
}

TEST(TransfersUnderWay, AreStuckWhenOneTakesFarLongerThanTheLinkWould) {
  TransfersUnderWay transfers;
  transfers.add(event(), Bytes{100'000'000}, kBegin);
  EXPECT_EQ(transfers.longest_for_one(kNobodyKnows), std::chrono::milliseconds{100});
  EXPECT_EQ(transfers.longest_for_one(1e9), std::chrono::milliseconds{400});
}

TEST(TransfersUnderWay, KeepTheLinkBusyUntilOneIsStuck) {
  TransfersUnderWay transfers;
  for (std::size_t i = 0; i < TransfersUnderWay::kEnoughTransfers; ++i) {
    transfers.add(event(), TransfersUnderWay::kEnoughBytes, kBegin);
  }
  const auto is_busy_after = [&](std::chrono::milliseconds time) {
    return transfers.is_busy(kLargeRoom, kNobodyKnows, kBegin + time);
  };
  EXPECT_TRUE(is_busy_after(std::chrono::milliseconds{99}));
  EXPECT_FALSE(is_busy_after(std::chrono::milliseconds{100}));
  transfers.add(event(), TransfersUnderWay::kEnoughBytes, kBegin);
  transfers.drop_oldest(kBegin + std::chrono::milliseconds{100});
  EXPECT_TRUE(is_busy_after(std::chrono::milliseconds{199})) << "another one is the oldest";
}

TEST(TransfersUnderWay, EndInTheOrderInWhichTheyBegan) {
  TransfersUnderWay transfers;
  const EventRef first = event();
  const EventRef second = event();
  transfers.add(first, TransfersUnderWay::kEnoughBytes, kBegin);
  transfers.add(second, TransfersUnderWay::kEnoughBytes, kBegin);
  EXPECT_EQ(transfers.oldest(), first);
  transfers.drop_oldest(kBegin);
  EXPECT_EQ(transfers.oldest(), second);
}

TEST(TransfersUnderWay, WhatTakesNoTimeDoesNotCount) {
  TransfersUnderWay transfers;
  for (std::size_t i = 0; i < 2 * TransfersUnderWay::kEnoughTransfers; ++i) {
    transfers.add(nullptr, TransfersUnderWay::kEnoughBytes, kBegin);
  }
  EXPECT_FALSE(transfers.is_enough(kLargeRoom, kNobodyKnows, kBegin));
}

}  // namespace
}  // namespace superpipe::testing
