// What an operation of the program does to the buffers that it names, from before it is submitted
// until after.
#include "residency/uses/use_tracker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <utility>
#include <vector>

#include "tests/residency/use_fixture.h"

namespace superpipe::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST_F(UseTrackerTest, TellsWhetherALaunchWaited) {
  const BufferId id = out(1);
  for (const bool waits : {true, false}) {
    UseToken token;
    ASSERT_EQ(begin_launch({id}, stream_, token), Status::kOk);
    EXPECT_EQ(token.has_waited(), waits);
    uses_.end_use(token, stream_, true);
  }
  UseToken token;
  ASSERT_EQ(uses_.begin_launch(KernelId{7}, {}, stream_, token), Status::kOk);
  EXPECT_FALSE(token.has_waited()) << "it names nothing";
}

TEST_F(UseTrackerTest, ALaunchPinsWhatIsInPlaceOnceAndAsksTheDeviceForNothingMore) {
  const BufferId id = dirty(1);
  const BufferId other = clean(1);
  UseToken token;
  ASSERT_EQ(begin_launch({id, other, id}, stream_, token), Status::kOk);
  EXPECT_EQ(core_.buffers[id].pins, 1U);
  EXPECT_EQ(core_.buffers[other].pins, 1U);
  EXPECT_TRUE(core_.buffers[other].is_dirty(0)) << "it may write all that it names";
  uses_.end_use(token, stream_, true);
  EXPECT_TRUE(token.empty());
  EXPECT_EQ(core_.buffers[id].pins, 0U);
  EXPECT_EQ(rounds_.rounds, 0);
  EXPECT_EQ(device_.calls(Call::kRecord), 0);
  EXPECT_EQ(device_.calls(Call::kStreamWait), 0);
  EXPECT_EQ(counters().accesses, 2U);
}

TEST_F(UseTrackerTest, WordsOutsideLiveBuffersAreIgnored) {
  const BufferId freed = dirty(1);
  const Address behind = core_.buffers[freed].base + core_.buffers[freed].footprint.count();
  core_.arena->set_owner(core_.buffers[freed].base, core_.buffers[freed].footprint, Arena::kNobody);
  const std::array<std::uint64_t, 3> words{0, core_.buffers[freed].base, behind};
  UseToken token;
  EXPECT_EQ(uses_.begin_launch(KernelId{7}, words, stream_, token), Status::kOk);
  EXPECT_TRUE(token.empty());
  EXPECT_EQ(core_.buffers[freed].pins, 0U);
  EXPECT_EQ(uses_.launches(), 1U);
}

// Of an array whose first element has the number 1 a kernel gets a pointer to before it.
TEST_F(UseTrackerTest, AWordShortlyBeforeABufferNamesIt) {
  const BufferId id = out(1);
  const std::array<std::uint64_t, 1> words{core_.buffers[id].base - 4};
  UseToken token;
  ASSERT_EQ(uses_.begin_launch(KernelId{7}, words, stream_, token), Status::kOk);
  EXPECT_FALSE(token.empty());
  EXPECT_EQ(core_.buffers[id].pieces[0].state(), PieceState::kIn);
  uses_.end_use(token, stream_, true);
}

TEST_F(UseTrackerTest, PinsMoreBuffersThanATokenHasRoomFor) {
  std::vector<BufferId> ids;
  for (std::size_t i = 0; i < UseToken::kInline + 6; ++i) ids.push_back(dirty(1));
  UseToken token;
  ASSERT_EQ(begin_launch(ids, stream_, token), Status::kOk);
  for (const BufferId id : ids) EXPECT_EQ(core_.buffers[id].pins, 1U);
  uses_.end_use(token, stream_, true);
  for (const BufferId id : ids) EXPECT_EQ(core_.buffers[id].pins, 0U);
}

TEST_F(UseTrackerTest, ALaunchDoesNotWaitForContentButItsStreamDoes) {
  const BufferId id = out_behind_blocked_work(7);
  UseToken token;
  ASSERT_EQ(begin_launch({id}, stream_, token), Status::kOk);
  int seen = -2;
  device_.submit(stream_, [&] { seen = device_value(id); });
  uses_.end_use(token, stream_, true);
  device_.drain();
  EXPECT_EQ(seen, -2) << "the launch ran before its content was there";
  unblock();
  EXPECT_EQ(seen, 7);
}

TEST_F(UseTrackerTest, EachStreamIsMadeToWaitForAFetchOnce) {
  const BufferId id = out_behind_blocked_work(7);
  run_on(stream_, id);
  const int waits = device_.calls(Call::kStreamWait);
  run_on(stream_, id);
  EXPECT_EQ(device_.calls(Call::kStreamWait), waits);
  run_on(device_.program_stream(), id);
  EXPECT_EQ(device_.calls(Call::kStreamWait), waits + 1);
}

TEST_F(UseTrackerTest, AReadLeavesABufferCleanAndAWriteGivesItContent) {
  const BufferId id = clean(1);
  const BufferId unwritten = fresh(1);
  UseToken token;
  ASSERT_EQ(begin_use(id, kReads, token), Status::kOk);
  uses_.end_use(token, stream_, true);
  EXPECT_FALSE(core_.buffers[id].is_dirty(0));
  ASSERT_EQ(begin_use(unwritten, kReads, token), Status::kOk);
  uses_.end_use(token, stream_, true);
  EXPECT_TRUE(core_.buffers[unwritten].fresh);
  ASSERT_EQ(begin_use(unwritten, kWrites, token), Status::kOk);
  uses_.end_use(token, stream_, true);
  EXPECT_TRUE(core_.buffers[unwritten].is_dirty(0));
  EXPECT_FALSE(core_.buffers[unwritten].fresh);
}

TEST_F(UseTrackerTest, AHoldKeepsABufferInPlaceUntilItEndsAndIsNoUse) {
  const BufferId id = out_behind_blocked_work(7);
  unblock();
  UseToken token;
  ASSERT_EQ(uses_.begin_hold(words_of({id}), token), Status::kOk);
  EXPECT_EQ(core_.buffers[id].missing, 0U) << "it was fetched";
  EXPECT_EQ(core_.buffers[id].pins, 1U);
  uses_.end_use(token, StreamHandle{}, false);
  expect_untouched(id);
  EXPECT_FALSE(core_.buffers[id].is_dirty(0));
  EXPECT_TRUE(can_go_at_once(id));
}

TEST_F(UseTrackerTest, ACopyOrAMemsetIsKnownToWriteAndALaunchIsNot) {
  const BufferId id = clean(1);
  const Buffer& buffer = core_.buffers[id];
  UseToken token;
  ASSERT_EQ(begin_launch({id}, stream_, token), Status::kOk);
  uses_.end_use(token, stream_, true);
  EXPECT_TRUE(buffer.is_dirty(0));
  EXPECT_FALSE(buffer.has_known_write(0));
  ASSERT_EQ(begin_use(id, kReads, token), Status::kOk);
  uses_.end_use(token, stream_, true);
  EXPECT_FALSE(buffer.has_known_write(0));
  ASSERT_EQ(begin_use(id, kWrites, token), Status::kOk);
  uses_.end_use(token, stream_, true);
  EXPECT_TRUE(buffer.has_known_write(0));
}

TEST_F(UseTrackerTest, AMemsetOfABufferThatIsOutIsAKnownWrite) {
  const BufferId id = out(1);
  UseToken token;
  ASSERT_EQ(begin_use(id, kWrites, token), Status::kOk);
  uses_.end_use(token, stream_, true);
  EXPECT_TRUE(core_.buffers[id].has_known_write(0));
}

TEST_F(UseTrackerTest, AnEvictionWaitsForALaunchThatWasSubmitted) {
  const StreamHandle blocked = blocked_stream();
  const BufferId id = dirty(1);
  UseToken token;
  ASSERT_EQ(begin_launch({id}, blocked, token), Status::kOk);
  uses_.end_use(token, blocked, true);
  EXPECT_FALSE(can_go_at_once(id));
}

TEST_F(UseTrackerTest, ALaunchThatWasNotSubmittedIsNoUse) {
  const StreamHandle blocked = blocked_stream();
  const BufferId id = dirty(1);
  UseToken token;
  ASSERT_EQ(begin_launch({id}, blocked, token), Status::kOk);
  uses_.end_use(token, blocked, false);
  EXPECT_EQ(core_.buffers[id].pins, 0U);
  EXPECT_TRUE(can_go_at_once(id));
}

TEST_F(UseTrackerTest, AnOperationKeepsABufferThatWasAboutToBeEvicted) {
  const BufferId id = dirty(1);
  {
    const ManagerLock lock(core_.mutex);
    const std::array<BufferId, 1> victims{id};
    ASSERT_EQ(evictions_.request(victims), kGranule);
  }
  UseToken token;
  ASSERT_EQ(begin_use(id, kReads, token), Status::kOk);
  const ManagerLock lock(core_.mutex);
  EXPECT_EQ(evictions_.take_next(), std::nullopt);
  EXPECT_FALSE(core_.ledger.expects_pages());
}

TEST_F(UseTrackerTest, AFetchThatFailsFailsTheLaunchAndLeavesNothingPinned) {
  const BufferId in = clean(1);
  const BufferId id = out(1, 7);
  device_.fail(Call::kCopyToDevice, 1, Status::kDeviceError);
  UseToken token;
  EXPECT_EQ(begin_launch({in, id}, stream_, token), Status::kDeviceError);
  EXPECT_TRUE(token.empty());
  expect_untouched(in);
  expect_untouched(id);
  EXPECT_FALSE(core_.buffers[in].is_dirty(0));
  EXPECT_EQ(begin_launch({in, id}, stream_, token), Status::kOk) << "it can be tried again";
}

TEST_F(UseTrackerTest, AStreamThatCannotBeMadeToWaitFailsTheLaunch) {
  const BufferId id = out_behind_blocked_work(7);
  device_.fail(Call::kStreamWait, 2, Status::kDeviceError);  // after that of the fetch
  UseToken token;
  EXPECT_EQ(begin_launch({id}, stream_, token), Status::kDeviceError);
  EXPECT_TRUE(token.empty());
  expect_untouched(id);
  EXPECT_EQ(counters().errors, 1U);
  // The next one does not take the stream for one that waits already.
  ASSERT_EQ(begin_launch({id}, stream_, token), Status::kOk);
  EXPECT_EQ(device_.calls(Call::kStreamWait), 3);
}

TEST_F(UseTrackerTest, PinsNothingBeforeItsTurn) {
  const BufferId in = clean(1);
  const BufferId id = out(1);
  TurnQueue::Place place;
  {
    const ManagerLock lock(core_.mutex);
    core_.turn.join(place);
    ASSERT_TRUE(core_.turn.take(place));
  }
  std::uint32_t pins_meanwhile = 0;
  in_round(3, [&]() NO_THREAD_SAFETY_ANALYSIS {
    pins_meanwhile = core_.buffers[in].pins + core_.buffers[id].pins;
    core_.turn.end();
  });
  UseToken token;
  EXPECT_EQ(begin_launch({in, id}, stream_, token), Status::kOk);
  EXPECT_EQ(pins_meanwhile, 0U);
  EXPECT_EQ(core_.buffers[in].pins, 1U);
}

// The one that has the turn may wait for work that does not end (I7).
TEST_F(UseTrackerTest, WithoutATurnItGoesOverTheLimitAndWaitsForNobodyToLeave) {
  const BufferId in = clean(1);
  const BufferId id = out(1, 7);
  {
    const ManagerLock lock(core_.mutex);
    TurnQueue::Place place;
    core_.turn.join(place);
    ASSERT_TRUE(core_.turn.take(place));  // and never ends
    core_.ledger.set_limit(2 * kGranule, true);
    make_dirty(1);
    ASSERT_TRUE(core_.ledger.is_within_limit() && !core_.ledger.admits(kGranule));
  }
  UseToken token;
  EXPECT_EQ(begin_launch({in, id}, stream_, token), Status::kOk);
  EXPECT_TRUE(told_of_giving_up("for another operation that needs room"));
  EXPECT_EQ(device_value(id), 7);
  EXPECT_EQ(counters().demand_fetches, 1U);
  EXPECT_EQ(core_.ledger.pages(), 3 * kGranule);
  uses_.end_use(token, stream_, false);
  const auto begun = core_.now();
  EXPECT_EQ(begin_launch({in}, stream_, token), Status::kOk);
  EXPECT_LT(core_.now() - begun, core_.options.wait_limit) << "all is in place: it needs no turn";
}

TEST_F(UseTrackerTest, WithoutATurnItIsStillRefusedWhereTheDeviceHasNoRoom) {
  const BufferId id = out(1);
  {
    const ManagerLock lock(core_.mutex);
    TurnQueue::Place place;
    core_.turn.join(place);
    ASSERT_TRUE(core_.turn.take(place));
    device_.set_others(Bytes{std::uint64_t{1} << 40});
  }
  UseToken token;
  EXPECT_EQ(begin_launch({id}, stream_, token), Status::kOutOfDeviceMemory);
  EXPECT_TRUE(token.empty());
  expect_untouched(id);
}

TEST_F(UseTrackerTest, ACapturedLaunchPinsForeverAndWaitsForItsContentItself) {
  const BufferId id = out(1, 7);
  device_.set_capturing(stream_, true);
  UseToken token;
  ASSERT_EQ(begin_launch({id}, stream_, token), Status::kOk);
  EXPECT_EQ(device_value(id), 7);
  uses_.end_use(token, stream_, true);
  const Buffer& buffer = core_.buffers[id];
  EXPECT_TRUE(buffer.pinned_forever);
  EXPECT_EQ(buffer.pins, 0U);
  EXPECT_EQ(device_.calls(Call::kStreamWait), 0);
  const ManagerLock lock(core_.mutex);
  EXPECT_FALSE(evictions_.may_go(buffer));
}

TEST_F(UseTrackerTest, ACapturedLaunchWaitsForContentNoLongerThanTheWaitLimit) {
  const BufferId id = out_behind_blocked_work(7);
  device_.set_capturing(stream_, true);
  UseToken token;
  EXPECT_EQ(begin_launch({id}, stream_, token), Status::kTimedOut);
  EXPECT_TRUE(told_of_giving_up("for content to arrive"));
  EXPECT_TRUE(token.empty());
  expect_untouched(id);
}

TEST_F(UseTrackerTest, AUseOfThePerThreadStreamIsMarkedByItsOwnThread) {
  const BufferId id = dirty(1);
  run_on(stream_, id);
  EXPECT_EQ(device_.calls(Call::kRecord), 0);
  run_on(kPerThreadStream, id);
  EXPECT_EQ(device_.calls(Call::kRecord), 1);
}

TEST_F(UseTrackerTest, PinningForeverFetchesWaitsAndTellsTheUserOnce) {
  const BufferId id = out(1, 7);
  const BufferId later = out(1, 8);
  EXPECT_EQ(uses_.pin_forever(words_of({id}), "they are exported"), Status::kOk);
  EXPECT_EQ(device_value(id), 7);
  EXPECT_TRUE(core_.buffers[id].pinned_forever);
  EXPECT_EQ(core_.buffers[id].pins, 0U);
  EXPECT_EQ(uses_.pin_forever(words_of({later}), "they are exported"), Status::kOk);
  EXPECT_THAT(told_, ElementsAre(HasSubstr("they are exported")));
}

/// A budget of two pages.
class TightUseTest : public UseTrackerTest {
 protected:
  TightUseTest() : UseTrackerTest(options_of(2)) {}
};

TEST_F(TightUseTest, ALaunchEvictsWhatItDoesNotNameAndNeverExceedsTheBudget) {
  const BufferId named = dirty(1, 3);
  const BufferId unnamed = dirty(1, 4);
  const BufferId id = out(1, 7);
  UseToken token;
  ASSERT_EQ(begin_launch({named, id}, stream_, token), Status::kOk);
  device_.drain();
  EXPECT_EQ(device_value(named), 3);
  EXPECT_EQ(device_value(id), 7);
  EXPECT_EQ(host_value(unnamed), 4);
  EXPECT_LE(device_.peak_bytes(), 2 * kGranule);
}

TEST_F(TightUseTest, AWorkingSetAboveTheBudgetIsRefusedWithAWarningAndNothingMoves) {
  const BufferId in = clean(1, 3);
  const std::vector<BufferId> set{in, out(1), out(1)};
  UseToken token;
  EXPECT_EQ(begin_launch(set, stream_, token), Status::kWorkingSetTooLarge);
  EXPECT_TRUE(token.empty());
  for (const BufferId id : set) expect_untouched(id);
  EXPECT_EQ(device_value(in), 3);
  EXPECT_THAT(told_, ElementsAre(HasSubstr("raise the budget")));
}

TEST_F(TightUseTest, WhatIsInPlaceIsNotEvictedForLaterOperationsWhileItIsPinned) {
  const BufferId first = dirty(1);
  const BufferId second = dirty(1);
  const BufferId id = out(1);
  UseToken token;
  ASSERT_EQ(begin_use(first, kReads, token), Status::kOk);
  UseToken next;
  ASSERT_EQ(begin_launch({id}, stream_, next), Status::kOk);
  EXPECT_EQ(core_.buffers[first].pieces[0].state(), PieceState::kIn);
  EXPECT_EQ(core_.buffers[second].pieces[0].state(), PieceState::kOut);
}

/// A budget of four pages, and launches of which only the first words are sure.

}  // namespace
}  // namespace superpipe::testing
