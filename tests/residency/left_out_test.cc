// What a launch over the limit names only in words of structs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "tests/residency/use_fixture.h"

namespace superpipe::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

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
  PieceState place_of(BufferId id) { return core_.buffers[id].pieces[0].state(); }
};

TEST_F(LeftOutTest, WhatOnlyStructsNameGivesWayBeforeALaunchIsRefused) {
  const BufferId named = out(2, 7);
  const BufferId stale = out(3, 4);
  UseToken token;
  ASSERT_EQ(begin({named}, {stale}, token), Status::kOk);
  EXPECT_EQ(token.left_out(), 1U);
  EXPECT_EQ(place_of(named), PieceState::kIn);
  EXPECT_EQ(place_of(stale), PieceState::kOut);
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
  EXPECT_EQ(place_of(unsure), PieceState::kOut);
}

TEST_F(LeftOutTest, WhatFitsIsKeptTheSmallestFirst) {
  const BufferId named = out(1, 7);
  const BufferId large = out(3, 4);
  const BufferId small = out(1, 5);
  UseToken token;
  ASSERT_EQ(begin({named}, {large, small}, token), Status::kOk);
  EXPECT_EQ(token.left_out(), 1U);
  EXPECT_EQ(place_of(small), PieceState::kIn);
  EXPECT_EQ(place_of(large), PieceState::kOut);
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
  EXPECT_EQ(place_of(stale), PieceState::kIn);
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
  EXPECT_EQ(place_of(stale), PieceState::kIn) << "nothing is known yet: the larger one gives way";
  EXPECT_EQ(place_of(used), PieceState::kOut);
  uses_.end_use(token, stream_, true);
  device_.drain();
  ASSERT_EQ(begin({other}, {stale, used_next}, token), Status::kOk);
  EXPECT_EQ(token.left_out(), 1U);
  EXPECT_EQ(place_of(used_next), PieceState::kIn);
  uses_.end_use(token, stream_, true);
}

TEST_F(LeftOutTest, NothingGivesWayWhereThereIsRoom) {
  const BufferId named = out(2, 7);
  const BufferId unsure = out(2, 4);
  UseToken token;
  ASSERT_EQ(begin({named}, {unsure}, token), Status::kOk);
  EXPECT_EQ(token.left_out(), 0U);
  EXPECT_EQ(place_of(unsure), PieceState::kIn);
  uses_.end_use(token, stream_, true);
  EXPECT_EQ(counters().left_out_launches, 0U);
}

TEST_F(LeftOutTest, WhatGivesWayMakesRoomByLeaving) {
  const BufferId stale = dirty(3, 4);
  const BufferId named = out(2, 7);
  UseToken token;
  ASSERT_EQ(begin({named}, {stale}, token), Status::kOk);
  EXPECT_EQ(place_of(named), PieceState::kIn);
  EXPECT_EQ(place_of(stale), PieceState::kOut);
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
    EXPECT_EQ(place_of(stale), PieceState::kOut) << "the launch has not been submitted";
    EXPECT_EQ(core_.buffers[stale].pieces[0].want, Want::kNobody) << "a prefetch is dropped";
  }
  device_.submit_blocking_host_function(stream_);
  uses_.end_use(token, stream_, true);
  bool was_out = false;
  in_round(40, [&]() NO_THREAD_SAFETY_ANALYSIS {
    was_out = core_.buffers[stale].pieces[0].is_out();
    unblock();
  });
  UseToken next;
  ASSERT_EQ(begin_launch({stale}, device_.program_stream(), next), Status::kOk);
  EXPECT_TRUE(was_out);
  device_.drain();
  EXPECT_EQ(device_value(stale), 4);
  EXPECT_TRUE(core_.buffers[stale].rare->left_out_until.empty());
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
  EXPECT_EQ(place_of(stale), PieceState::kOut);
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
  EXPECT_TRUE(core_.buffers[stale].rare->left_out_until.empty());
  UseToken next;
  EXPECT_EQ(begin_launch({stale}, stream_, next), Status::kOk);
}

}  // namespace
}  // namespace superpipe::testing
