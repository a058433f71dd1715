// Marks of the ends of launches: a host that is far ahead of its device still learns, one after the
// other, which buffers the device is done with.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "tests/residency/use_fixture.h"

namespace superpipe::testing {
namespace {

// A mark is due when buffers of more than one in 32 of the room have been used: of two pages.
constexpr std::uint64_t kRoom = 63;

class UseMarksTest : public UseTrackerTest {
 protected:
  static ResidencyOptions options_of(PolicyKind policy) {
    ResidencyOptions options = CoreTest::options_of(kRoom);
    options.policy.kind = policy;
    return options;
  }
  explicit UseMarksTest(PolicyKind policy = PolicyKind::kAuto)
      : UseTrackerTest(options_of(policy)) {}

  /// Not all that is live has room any more.
  void press() { (void)out(kRoom); }
  /// A launch on `stream`. @return how many marks it made.
  int marks_of_launch(const std::vector<BufferId>& ids, StreamHandle stream,
                      bool submitted = true) {
    const int before = device_.calls(Call::kRecord);
    UseToken token;
    EXPECT_EQ(begin_launch(ids, stream, token), Status::kOk);
    uses_.end_use(token, stream, submitted);
    return device_.calls(Call::kRecord) - before;
  }
  bool is_over(BufferId id) EXCLUDES(manager_lock) {
    const ManagerLock lock(core_.mutex);
    return completion_.is_over(core_.buffers[id]);
  }
  void look() EXCLUDES(manager_lock) {
    const ManagerLock lock(core_.mutex);
    (void)completion_.advance();
  }
  [[nodiscard]] std::uint64_t launches_completed() EXCLUDES(manager_lock) {
    const ManagerLock lock(core_.mutex);
    return core_.pacing.launches_completed(core_.streams.completed_to(core_.seq).value_or(0));
  }
};

TEST_F(UseMarksTest, OfLaunchesThatNobodyLookedAtInBetweenTheFirstIsFoundCompleteFirst) {
  press();
  const BufferId first = clean(2);
  const BufferId second = clean(2);
  EXPECT_EQ(marks_of_launch({first}, stream_), 1);
  device_.submit_blocking_host_function(stream_);
  EXPECT_EQ(marks_of_launch({second}, stream_), 1);
  device_.drain();
  look();
  EXPECT_TRUE(is_over(first));
  EXPECT_FALSE(is_over(second));
  EXPECT_EQ(launches_completed(), 1U);
  unblock();
  look();
  EXPECT_TRUE(is_over(second));
  EXPECT_EQ(launches_completed(), 2U);
}

TEST_F(UseMarksTest, AreMadeAsOftenAsThereIsMuchToBecomeFree) {
  press();
  std::vector<int> marks;
  for (int launch = 0; launch < 6; ++launch) marks.push_back(marks_of_launch({clean(1)}, stream_));
  EXPECT_EQ(marks, (std::vector<int>{0, 1, 0, 1, 0, 1}));
}

TEST_F(UseMarksTest, WhatIsInConstantUseMakesNoneAfterTheFirst) {
  press();
  const BufferId cache = clean(16);
  const BufferId activation = clean(2);
  int marks = 0;
  for (int launch = 0; launch < 50; ++launch)
    marks += marks_of_launch({cache, activation}, stream_);
  EXPECT_LE(marks, 3);
}

TEST_F(UseMarksTest, NoMoreAreMadeThanAreAwaited) {
  press();
  const StreamHandle stream = blocked_stream();
  std::vector<BufferId> buffers;
  for (int i = 0; i < 16; ++i) buffers.push_back(clean(2));
  int marks = 0;
  constexpr int kPasses = 12;
  for (int launch = 0; launch < 16 * kPasses; ++launch) {
    marks += marks_of_launch({buffers[launch % 16U]}, stream);
  }
  EXPECT_GE(marks, static_cast<int>(StreamTable::kMostAwaited));
  EXPECT_LE(marks, static_cast<int>(StreamTable::kMostAwaited) + kPasses) << "and the passes' own";
  unblock();
}

TEST_F(UseMarksTest, ALaunchOnTheThreadsOwnStreamIsAwaitedByItsOwnEvent) {
  press();
  const BufferId first = clean(2);
  const BufferId second = clean(2);
  EXPECT_EQ(marks_of_launch({first}, kPerThreadStream), 1);
  EXPECT_EQ(marks_of_launch({second}, kPerThreadStream), 1);
  {
    const ManagerLock lock(core_.mutex);
    const Slot slot = core_.streams.slot_of(kPerThreadStream);
    EXPECT_EQ(core_.streams.entry(slot).awaited.size(), 2U);
  }
  device_.drain();
  look();
  EXPECT_TRUE(is_over(second));
}

TEST_F(UseMarksTest, AMarkThatCannotBeMadeIsNoFault) {
  press();
  const BufferId id = clean(2);
  device_.fail(Call::kRecord, 1, Status::kDeviceError);
  EXPECT_EQ(marks_of_launch({id}, stream_), 1);
  look();
  device_.drain();
  look();
  EXPECT_TRUE(is_over(id)) << "the next mark covers it";
}

TEST_F(UseMarksTest, IfOneCannotBeMadeTheLaunchesBehindItDoNotTryAtOnce) {
  press();
  const BufferId small = clean(1);
  const BufferId large = clean(2);
  device_.fail(Call::kRecord, 1, Status::kDeviceError, /*repeat=*/true);
  EXPECT_EQ(marks_of_launch({large}, stream_), 1);
  EXPECT_EQ(marks_of_launch({small}, stream_), 0);
  device_.clear_faults();
}

// They are as many as those of launches: else a host that is far ahead with small launches would
// leave no place for those that tell more.
TEST_F(UseMarksTest, LooksLeaveLaunchesTheirPlaces) {
  press();
  const StreamHandle stream = blocked_stream();
  const BufferId small = clean(1);
  for (int launch = 0; launch < 200; ++launch) {
    (void)marks_of_launch({small}, stream);
    look();
  }
  int marks = 0;
  for (int launch = 0; launch < 16; ++launch) marks += marks_of_launch({clean(2)}, stream);
  EXPECT_EQ(marks, 16);
  unblock();
}

TEST_F(UseMarksTest, ALaunchThatWasNotSubmittedMakesNone) {
  press();
  EXPECT_EQ(marks_of_launch({clean(2)}, stream_, /*submitted=*/false), 0);
}

TEST_F(UseMarksTest, NoneIsMadeOnceTheManagerHasEnded) {
  press();
  for (const bool abandons : {false, true}) {
    UseToken token;
    ASSERT_EQ(begin_launch({clean(2)}, stream_, token), Status::kOk);
    {
      const ManagerLock lock(core_.mutex);
      core_.waits.stopped = !abandons;
      core_.waits.abandoned = abandons;
    }
    const int before = device_.calls(Call::kRecord);
    uses_.end_use(token, stream_, true);
    EXPECT_EQ(device_.calls(Call::kRecord), before);
    const ManagerLock lock(core_.mutex);
    core_.waits.stopped = false;
    core_.waits.abandoned = false;
  }
}

TEST_F(UseMarksTest, WhileAllFitsNoneIsMade) {
  EXPECT_EQ(marks_of_launch({clean(32)}, stream_), 0);
}

class UseMarksOfLayersTest : public UseMarksTest {
 protected:
  UseMarksOfLayersTest() : UseMarksTest(PolicyKind::kNaive) {}
};

TEST_F(UseMarksOfLayersTest, PoliciesThatMoveLayersNeedNone) {
  press();
  EXPECT_EQ(marks_of_launch({clean(32)}, stream_), 0);
}

}  // namespace
}  // namespace superpipe::testing
