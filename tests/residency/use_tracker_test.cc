// What an operation of the program does to the buffers that it names, from before it is submitted
// until after.
#include "residency/use_tracker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <utility>
#include <vector>

#include "tests/residency/core_fixture.h"

namespace superpipe::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr bool kReads = false;
constexpr bool kWrites = true;

class UseTrackerTest : public UsingCoreTest {
 protected:
  using UsingCoreTest::UsingCoreTest;

  /// Kernel arguments that name the buffers: addresses inside them.
  std::vector<std::uint64_t> words_of(const std::vector<BufferId>& ids) const {
    std::vector<std::uint64_t> words;
    words.reserve(ids.size());
    for (const BufferId id : ids) words.push_back(core_.buffers[id].base + 8);
    return words;
  }
  Status begin_launch(const std::vector<BufferId>& ids, StreamHandle stream, UseToken& token) {
    return uses_.begin_launch(KernelId{7}, words_of(ids), stream, token);
  }
  Status begin_use(BufferId id, bool writes, UseToken& token) {
    return uses_.begin_use(words_of({id}), writes, stream_, token);
  }
  /// A whole operation that is submitted to `stream`.
  void run_on(StreamHandle stream, BufferId id) {
    UseToken token;
    ASSERT_EQ(uses_.begin_use(words_of({id}), kWrites, stream, token), Status::kOk);
    uses_.end_use(token, stream, true);
  }
  /// The buffer leaves nothing behind of an operation that failed.
  void expect_untouched(BufferId id) {
    const Buffer& buffer = core_.buffers[id];
    EXPECT_EQ(buffer.pins, 0U);
    EXPECT_EQ(buffer.uses, 0U);
    EXPECT_EQ(buffer.last_use, 0U);
    EXPECT_EQ(buffer.pieces[0].want, Want::kNobody);
    EXPECT_EQ(buffer.pieces[0].fetch_status, Status::kOk);
    EXPECT_FALSE(buffer.pinned_forever);
  }
  /// Whether the buffer can be taken out without waiting for the program. Takes it.
  bool can_go_at_once(BufferId id) EXCLUDES(manager_lock) {
    const ManagerLock lock(core_.mutex);
    const std::array<BufferId, 1> victims{id};
    EXPECT_EQ(evictions_.request(victims), core_.buffers[id].footprint);
    device_.drain();
    return evictions_.take_next() == PieceId{id, 0};
  }
  /// A buffer that is out, and whose content arrives only when unblock() was called.
  BufferId out_behind_blocked_work(int value) {
    const BufferId id = out(1, value);
    core_.buffers[id].pieces[0].write_back = blocked_event();
    return id;
  }

  const StreamHandle stream_ = device_.program_stream();
};

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

TEST_F(UseTrackerTest, WithoutATurnItTimesOutUnlessAllIsInPlace) {
  const BufferId in = clean(1);
  const BufferId id = out(1);
  {
    const ManagerLock lock(core_.mutex);
    TurnQueue::Place place;
    core_.turn.join(place);
    ASSERT_TRUE(core_.turn.take(place));  // and never ends
  }
  UseToken token;
  EXPECT_EQ(begin_launch({in, id}, stream_, token), Status::kTimedOut);
  EXPECT_TRUE(told_of_giving_up("for another operation that needs room"));
  EXPECT_TRUE(token.empty());
  expect_untouched(in);
  expect_untouched(id);
  EXPECT_EQ(begin_launch({in}, stream_, token), Status::kOk);
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
  EXPECT_EQ(core_.buffers[first].pieces[0].place, Place::kIn);
  EXPECT_EQ(core_.buffers[second].pieces[0].place, Place::kOut);
}

/// A budget of four pages, and launches of which only the first words are sure.
class LeftOutTest : public UseTrackerTest {
 protected:
  LeftOutTest() : UseTrackerTest(options_of(4)) {}

  /// Begins a launch that names `sure` for certain, and `unsure` only in words of structs.
  Status begin(const std::vector<BufferId>& sure, const std::vector<BufferId>& unsure,
               UseToken& token) {
    std::vector<BufferId> all = sure;
    all.insert(all.end(), unsure.begin(), unsure.end());
    token.set_certain_words(sure.size());
    return begin_launch(all, stream_, token);
  }
  Place place_of(BufferId id) { return core_.buffers[id].pieces[0].place; }
};

TEST_F(LeftOutTest, WhatOnlyStructsNameGivesWayBeforeALaunchIsRefused) {
  const BufferId named = out(2, 7);
  const BufferId stale = out(3, 4);
  UseToken token;
  ASSERT_EQ(begin({named}, {stale}, token), Status::kOk);
  EXPECT_EQ(token.left_out(), 1U);
  EXPECT_EQ(place_of(named), Place::kIn);
  EXPECT_EQ(place_of(stale), Place::kOut);
  EXPECT_EQ(counters().left_out_launches, 1U);
  EXPECT_THAT(told_, ElementsAre(HasSubstr("only words in its structs name")));
  uses_.end_use(token, stream_, true);
  EXPECT_EQ(core_.buffers[stale].pins, 0U);
  EXPECT_EQ(core_.buffers[stale].left_out, 0U);
  EXPECT_LE(device_.peak_bytes(), 4 * kGranule);
}

// Kernels with all of their operands in a struct are launched with one at least.
TEST_F(LeftOutTest, ALaunchThatWouldBeLeftWithNothingIsRefused) {
  const BufferId unsure = out(5, 4);
  UseToken token;
  EXPECT_EQ(begin({}, {unsure}, token), Status::kWorkingSetTooLarge);
  EXPECT_EQ(counters().left_out_launches, 0U);
  EXPECT_THAT(told_, ElementsAre(HasSubstr("raise the budget by at least")));
  EXPECT_EQ(core_.buffers[unsure].left_out, 0U);
  EXPECT_EQ(place_of(unsure), Place::kOut);
}

TEST_F(LeftOutTest, WhatFitsIsKeptTheSmallestFirst) {
  const BufferId named = out(1, 7);
  const BufferId large = out(3, 4);
  const BufferId small = out(1, 5);
  UseToken token;
  ASSERT_EQ(begin({named}, {large, small}, token), Status::kOk);
  EXPECT_EQ(token.left_out(), 1U);
  EXPECT_EQ(place_of(small), Place::kIn);
  EXPECT_EQ(place_of(large), Place::kOut);
  uses_.end_use(token, stream_, true);
}

TEST_F(LeftOutTest, WhatFitsBesideSomethingLargerThatDoesNotIsKept) {
  const BufferId one = out(1, 7);
  const BufferId other = out(1, 8);
  const BufferId stale = out(1, 4);
  const BufferId large = out(3, 5);
  UseToken token;
  ASSERT_EQ(begin({one}, {stale, large}, token), Status::kOk);
  uses_.end_use(token, stream_, true);
  device_.drain();
  const BufferId larger = out(4, 6);
  ASSERT_EQ(begin({other}, {stale, larger}, token), Status::kOk);
  EXPECT_EQ(token.left_out(), 1U) << "though the suspect comes behind";
  EXPECT_EQ(place_of(stale), Place::kIn);
  uses_.end_use(token, stream_, true);
}

TEST_F(LeftOutTest, WhatStayedTheSameWhileTheOperandsChangedGivesWayFirst) {
  const BufferId one = out(1, 7);
  const BufferId other = out(1, 8);
  const BufferId stale = out(1, 4);
  const BufferId used = out(3, 5);
  const BufferId used_next = out(3, 6);
  UseToken token;
  ASSERT_EQ(begin({one}, {stale, used}, token), Status::kOk);
  EXPECT_EQ(place_of(stale), Place::kIn) << "nothing is known yet: the larger one gives way";
  EXPECT_EQ(place_of(used), Place::kOut);
  uses_.end_use(token, stream_, true);
  device_.drain();
  ASSERT_EQ(begin({other}, {stale, used_next}, token), Status::kOk);
  EXPECT_EQ(token.left_out(), 1U);
  EXPECT_EQ(place_of(used_next), Place::kIn);
  uses_.end_use(token, stream_, true);
}

TEST_F(LeftOutTest, NothingGivesWayWhereThereIsRoom) {
  const BufferId named = out(2, 7);
  const BufferId unsure = out(2, 4);
  UseToken token;
  ASSERT_EQ(begin({named}, {unsure}, token), Status::kOk);
  EXPECT_EQ(token.left_out(), 0U);
  EXPECT_EQ(place_of(unsure), Place::kIn);
  uses_.end_use(token, stream_, true);
  EXPECT_EQ(counters().left_out_launches, 0U);
}

TEST_F(LeftOutTest, WhatGivesWayMakesRoomByLeaving) {
  const BufferId stale = dirty(3, 4);
  const BufferId named = out(2, 7);
  UseToken token;
  ASSERT_EQ(begin({named}, {stale}, token), Status::kOk);
  EXPECT_EQ(place_of(named), Place::kIn);
  EXPECT_EQ(place_of(stale), Place::kOut);
  uses_.end_use(token, stream_, true);
  device_.drain();
  EXPECT_EQ(host_value(stale), 4);
}

TEST_F(LeftOutTest, ALaunchThatIsSureToNeedTooMuchIsRefusedForThatAlone) {
  const BufferId named = out(5);
  const BufferId stale = out(3);
  UseToken token;
  EXPECT_EQ(begin({named}, {stale}, token), Status::kWorkingSetTooLarge);
  EXPECT_TRUE(token.empty());
  for (const BufferId id : {named, stale}) {
    expect_untouched(id);
    EXPECT_EQ(core_.buffers[id].left_out, 0U);
  }
  EXPECT_THAT(told_, ElementsAre(HasSubstr("needs 20480 bytes (20 KiB) of managed buffers")));
  EXPECT_EQ(counters().left_out_launches, 0U);
}

// The content of a page that is mapped under a running kernel may still be on its way.
TEST_F(LeftOutTest, WhatGaveWayComesInOnlyWhenTheLaunchHasCompleted) {
  const BufferId named = out(2, 7);
  const BufferId stale = out(3, 4);
  UseToken token;
  ASSERT_EQ(begin({named}, {stale}, token), Status::kOk);
  {
    const ManagerLock lock(core_.mutex);
    core_.want({stale, 0}, Want::kPrefetch);
    run_rounds();
    EXPECT_EQ(place_of(stale), Place::kOut) << "the launch has not been submitted";
    EXPECT_EQ(core_.buffers[stale].pieces[0].want, Want::kNobody) << "a prefetch is dropped";
  }
  device_.submit_blocking_host_function(stream_);
  uses_.end_use(token, stream_, true);
  bool was_out = false;
  in_round(40, [&]() NO_THREAD_SAFETY_ANALYSIS {
    was_out = place_of(stale) == Place::kOut;
    unblock();
  });
  UseToken next;
  ASSERT_EQ(begin_launch({stale}, device_.program_stream(), next), Status::kOk);
  EXPECT_TRUE(was_out);
  device_.drain();
  EXPECT_EQ(device_value(stale), 4);
  EXPECT_TRUE(core_.buffers[stale].left_out_until.empty());
}

// A page that is mapped under the kernel could be read before its content has arrived.
TEST_F(LeftOutTest, WhatGaveWayStaysOutForGoodWhereNothingMarksTheEndOfTheLaunch) {
  const BufferId named = out(2, 7);
  const BufferId stale = out(3, 4);
  UseToken token;
  ASSERT_EQ(begin({named}, {stale}, token), Status::kOk);
  device_.submit_blocking_host_function(stream_);
  device_.fail(Call::kRecord, 1, Status::kDeviceError);
  uses_.end_use(token, stream_, true);
  EXPECT_EQ(core_.buffers[stale].left_out, 0U) << "the launch is submitted";
  {
    const ManagerLock lock(core_.mutex);
    core_.want({stale, 0}, Want::kPrefetch);
    run_rounds();
    EXPECT_EQ(core_.buffers[stale].pieces[0].want, Want::kNobody);
  }
  UseToken next;
  EXPECT_EQ(begin_launch({stale}, device_.program_stream(), next), Status::kTimedOut);
  EXPECT_EQ(place_of(stale), Place::kOut);
  EXPECT_TRUE(told_of_giving_up("for buffers of one operation to get in place"));
}

// Another launch is begun without it while the device is asked about the last one.
TEST_F(LeftOutTest, WhatGaveWayDoesNotComeInUnderALaunchThatIsBegunMeanwhile) {
  const BufferId named = out(2, 7);
  const BufferId stale = out(3, 4);
  UseToken token;
  ASSERT_EQ(begin({named}, {stale}, token), Status::kOk);
  uses_.end_use(token, stream_, true);
  device_.drain();
  UseToken next;
  bool has_begun = false;
  device_.on_call = [&](Call call) {
    if (call != Call::kIsComplete || std::exchange(has_begun, true)) return;
    EXPECT_EQ(begin({named}, {stale}, next), Status::kOk);
  };
  const ManagerLock lock(core_.mutex);
  EXPECT_FALSE(left_out_.may_return(stale));
  device_.on_call = nullptr;
  ASSERT_TRUE(has_begun);
  {
    const Unlocked unlocked(core_.mutex);
    uses_.end_use(next, stream_, true);
  }
  device_.drain();
  EXPECT_TRUE(left_out_.may_return(stale));
}

TEST_F(LeftOutTest, ALaunchThatFailsAfterwardsHoldsNothingOut) {
  const BufferId named = out_behind_blocked_work(7);
  const BufferId stale = out(4, 4);
  UseToken token;
  device_.fail(Call::kStreamWait, 2, Status::kDeviceError);  // after that of the fetch
  EXPECT_EQ(begin({named}, {stale}, token), Status::kDeviceError);
  EXPECT_TRUE(token.empty());
  for (const BufferId id : {named, stale}) {
    EXPECT_EQ(core_.buffers[id].pins, 0U);
    EXPECT_EQ(core_.buffers[id].left_out, 0U);
  }
}

TEST_F(LeftOutTest, ALaunchThatIsNotSubmittedHoldsNothingOut) {
  const BufferId named = out(2, 7);
  const BufferId stale = out(3, 4);
  UseToken token;
  ASSERT_EQ(begin({named}, {stale}, token), Status::kOk);
  uses_.end_use(token, stream_, false);
  EXPECT_EQ(core_.buffers[stale].left_out, 0U);
  EXPECT_TRUE(core_.buffers[stale].left_out_until.empty());
  UseToken next;
  EXPECT_EQ(begin_launch({stale}, stream_, next), Status::kOk);
}

}  // namespace
}  // namespace superpipe::testing
