// Streams as small numbers, and which of their uses an event covers.
#include "residency/streams/stream_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "tests/residency/fake_device.h"

namespace superpipe::testing {
namespace {

using ::testing::ElementsAre;

class StreamTableTest : public ::testing::Test {
 protected:
  EventRef event(std::uint64_t seq) {
    auto recorded = events_.record(device_.program_stream(), seq);
    return *recorded;
  }
  bool covered(Slot slot, std::uint64_t seq) {
    std::vector<EventRef> found;
    return table_.covered(slot, seq, found);
  }
  void note_shared(StreamHandle stream, std::uint64_t seq, EventRef event) {
    table_.prepare_shared();
    table_.note_use(StreamTable::kShared, stream, seq, std::move(event));
  }

  FakeDevice device_{{.eager = true}};
  EventPool events_{device_};
  StreamTable table_;
};

TEST_F(StreamTableTest, GivesEachStreamASlotAndTheRestTheSharedOne) {
  std::set<Slot> slots;
  for (std::uint64_t i = 0; i < 63; ++i) slots.insert(table_.slot_of(StreamHandle{100 + i}));
  EXPECT_EQ(slots.size(), 63U);
  EXPECT_FALSE(slots.contains(StreamTable::kShared));
  EXPECT_EQ(table_.slot_of(StreamHandle{999}), StreamTable::kShared);
  EXPECT_EQ(table_.slot_of(StreamHandle{100}), 0);
}

/// In the order in which a thread makes them, the last one is destroyed first.
class AtTheVeryEnd {
 public:
  explicit AtTheVeryEnd(std::function<void()> what) : what_(std::move(what)) {}
  ~AtTheVeryEnd() { what_(); }
  AtTheVeryEnd(const AtTheVeryEnd&) = delete;
  AtTheVeryEnd& operator=(const AtTheVeryEnd&) = delete;

 private:
  std::function<void()> what_;
};

TEST_F(StreamTableTest, ThePerThreadStreamOfAThreadThatHasEndedIsRetired) {
  const Slot mine = table_.slot_of(kPerThreadStream);
  Slot ended = 0;
  std::thread([&] {
    ended = table_.slot_of(kPerThreadStream);
    EXPECT_EQ(table_.slot_of(kPerThreadStream), ended);
    table_.note_use(ended, kPerThreadStream, 1, nullptr);
  }).join();
  EXPECT_EQ(table_.recycle(), 0U) << "it is not looked for threads each time";
  table_.retire_ended();
  EXPECT_FALSE(table_.entry(mine).retired);
  EXPECT_TRUE(table_.entry(ended).retired);
  EXPECT_EQ(table_.recycle(), 0U) << "its last use has no event";
  table_.note_event(ended, event(1));
  EXPECT_TRUE(*events_.is_complete(table_.entry(ended).latest));
  EXPECT_EQ(table_.recycle(), std::uint64_t{1} << ended);
  EXPECT_EQ(table_.slot_of(StreamHandle{100}), ended);
}

TEST_F(StreamTableTest, WhatAThreadDoesAtItsVeryEndHasASlotThatStays) {
  Slot before = 0;
  Slot at_end = 0;
  std::thread([&] {
    thread_local const AtTheVeryEnd last([&] { at_end = table_.slot_of(kPerThreadStream); });
    before = table_.slot_of(kPerThreadStream);
  }).join();
  EXPECT_NE(at_end, before);
  table_.retire_ended();
  EXPECT_TRUE(table_.entry(before).retired);
  EXPECT_FALSE(table_.entry(at_end).retired);
}

TEST_F(StreamTableTest, KnowsWhichUsesAnEventCovers) {
  const Slot slot = table_.slot_of(StreamHandle{100});
  EXPECT_TRUE(covered(slot, 5)) << "nothing was submitted to it";
  table_.note_use(slot, StreamHandle{100}, 3, nullptr);
  EXPECT_FALSE(covered(slot, 3));
  table_.note_event(slot, event(3));
  EXPECT_TRUE(covered(slot, 3));
  EXPECT_TRUE(covered(slot, 9)) << "later uses were on other streams";
  table_.note_use(slot, StreamHandle{100}, 10, nullptr);
  EXPECT_FALSE(covered(slot, 9)) << "an event of before the last use does not tell";
  EXPECT_TRUE(covered(slot, 2));
}

TEST_F(StreamTableTest, WaitsForTheFirstAwaitedEventThatIsBehindTheUse) {
  const Slot slot = table_.slot_of(StreamHandle{100});
  table_.note_use(slot, StreamHandle{100}, 9, nullptr);
  const std::vector<EventRef> awaited{event(3), event(6), event(9)};
  table_.entry(slot).awaited = awaited;
  table_.note_event(slot, awaited.back());
  const auto waited_for = [&](std::uint64_t seq) {
    std::vector<EventRef> found;
    EXPECT_TRUE(table_.covered(slot, seq, found)) << seq;
    return found;
  };
  EXPECT_THAT(waited_for(2), ElementsAre(awaited[0]));
  EXPECT_THAT(waited_for(4), ElementsAre(awaited[1]));
  EXPECT_THAT(waited_for(9), ElementsAre(awaited[2]));
}

TEST_F(StreamTableTest, AllUsesHaveCompletedUpToTheLeastOfTheStreamsThatHaveUsesLeft) {
  const Slot one = table_.slot_of(StreamHandle{1});
  const Slot other = table_.slot_of(StreamHandle{2});
  EXPECT_EQ(table_.completed_to(0), 0U);
  table_.note_use(one, StreamHandle{1}, 3, nullptr);
  table_.note_use(other, StreamHandle{2}, 7, nullptr);
  table_.entry(one).completed = 2;
  table_.entry(other).completed = 5;
  EXPECT_EQ(table_.completed_to(9), 2U);
  table_.entry(one).completed = 3;
  EXPECT_EQ(table_.completed_to(9), 5U) << "the other has come to its end";
  table_.entry(other).completed = 7;
  EXPECT_EQ(table_.completed_to(9), 9U);
}

TEST_F(StreamTableTest, KnowsWhetherOthersHaveWork) {
  const Slot one = table_.slot_of(StreamHandle{1});
  const Slot other = table_.slot_of(StreamHandle{2});
  table_.note_use(one, StreamHandle{1}, 3, nullptr);
  EXPECT_TRUE(table_.has_no_work_beside(one));
  EXPECT_FALSE(table_.has_no_work_beside(other));
  table_.note_use(other, StreamHandle{2}, 7, nullptr);
  EXPECT_FALSE(table_.has_no_work_beside(one));
  table_.entry(other).completed = 7;
  EXPECT_TRUE(table_.has_no_work_beside(one));
}

TEST_F(StreamTableTest, CountsUsesOfTheSharedSlotUntilTheyAreOver) {
  const Slot own = table_.slot_of(StreamHandle{1});
  const EventRef end = event(4);
  EXPECT_EQ(table_.completed_to(9), 9U);
  note_shared(StreamHandle{500}, 5, end);
  EXPECT_EQ(table_.completed_to(9), 4U);
  EXPECT_FALSE(table_.is_all_over());
  EXPECT_FALSE(table_.has_no_work_beside(own));
  ASSERT_TRUE(*events_.is_complete(end));
  EXPECT_EQ(table_.completed_to(9), 9U);
  EXPECT_TRUE(table_.is_all_over());
  EXPECT_TRUE(table_.has_no_work_beside(own));
}

TEST_F(StreamTableTest, RecyclesASlotOnlyWhenItsLastUseIsOver) {
  const Slot slot = table_.slot_of(StreamHandle{100});
  table_.note_use(slot, StreamHandle{100}, 4, nullptr);
  table_.retire(slot);
  EXPECT_EQ(table_.recycle(), 0U) << "no event covers its last use";
  const EventRef end = event(4);
  table_.note_event(slot, end);
  EXPECT_EQ(table_.recycle(), 0U) << "nobody has seen it complete";
  ASSERT_TRUE(*events_.is_complete(end));
  EXPECT_EQ(table_.recycle(), std::uint64_t{1} << slot);
  EXPECT_EQ(table_.recycle(), 0U);
}

TEST_F(StreamTableTest, RecyclesNoSlotThatSomebodyVisits) {
  const Slot slot = table_.slot_of(StreamHandle{100});
  ++table_.entry(slot).visitors;
  table_.retire(slot);
  EXPECT_TRUE(table_.ending(slot));
  EXPECT_EQ(table_.recycle(), 0U);
  --table_.entry(slot).visitors;
  EXPECT_FALSE(table_.ending(slot));
  EXPECT_EQ(table_.recycle(), std::uint64_t{1} << slot);
}

TEST_F(StreamTableTest, AwaitsTheLatestEventOnceAndNoMoreThanItHasRoomFor) {
  const Slot slot = table_.slot_of(StreamHandle{100});
  table_.await_latest(slot);
  EXPECT_TRUE(table_.entry(slot).awaited.empty()) << "there is none";
  for (std::uint64_t seq = 1; seq <= StreamTable::kMostAwaited + 2; ++seq) {
    table_.note_use(slot, StreamHandle{100}, seq, nullptr);
    table_.note_event(slot, event(seq));
    table_.entry(slot).unawaited = 1_MiB;
    table_.await_latest(slot);
    table_.await_latest(slot);
    const std::uint64_t most = StreamTable::kMostAwaited;
    EXPECT_EQ(table_.awaited_to(slot), std::min(seq, most));
    EXPECT_EQ(table_.entry(slot).awaited.size(), std::min(seq, most));
    EXPECT_EQ(table_.entry(slot).unawaited == Bytes{}, seq <= most) << "it waits for its turn";
  }
}

TEST_F(StreamTableTest, TellsAStreamFromALaterOneWithTheSameHandle) {
  const Slot old = table_.slot_of(StreamHandle{100});
  table_.note_use(old, StreamHandle{100}, 1, nullptr);
  table_.retire(old);
  EXPECT_NE(table_.slot_of(StreamHandle{100}), old);
}

}  // namespace
}  // namespace superpipe::testing
