// The turn of one operation: who has it, in which order, and how long another waits for it.
#include "residency/room/turn.h"

#include <gtest/gtest.h>

#include "tests/residency/core_fixture.h"

namespace superpipe::testing {
namespace {

class TurnTest : public CoreTest {
 protected:
  /// Waits for the turn as long as an operation does.
  bool take(Turn& turn) REQUIRES(manager_lock) {
    return turn.take(core_.now() + core_.options.wait_limit);
  }
  /// Takes the turn only if nobody has it and nobody waits for it.
  bool take_now(Turn& turn) REQUIRES(manager_lock) { return turn.take(core_.now()); }
};

TEST_F(TurnTest, IsTakenWithoutWaitingWhenNobodyHasIt) {
  const ManagerLock lock(core_.mutex);
  const std::uint64_t turns = core_.turns;
  Turn turn(core_);
  EXPECT_TRUE(take(turn));
  EXPECT_EQ(rounds_.rounds, 0);
  // Buffers whose evictions failed in an earlier turn may be asked again.
  EXPECT_EQ(core_.turns, turns + 1);
}

TEST_F(TurnTest, WaitsForTheOperationThatHasIt) {
  const ManagerLock lock(core_.mutex);
  Turn first(core_);
  Turn second(core_);
  ASSERT_TRUE(take(first));
  in_round(3, [&]() NO_THREAD_SAFETY_ANALYSIS { first.end(); });
  EXPECT_TRUE(take(second));
  EXPECT_EQ(rounds_.rounds, 3);
}

TEST_F(TurnTest, GoesToTheOperationThatAskedFirst) {
  const ManagerLock lock(core_.mutex);
  Turn first(core_);
  Turn second(core_);
  Turn third(core_);
  ASSERT_TRUE(take(first));
  bool third_was_first = true;
  in_round(1, [&]() NO_THREAD_SAFETY_ANALYSIS {
    first.end();
    third_was_first = take_now(third);
  });
  EXPECT_TRUE(take(second));
  EXPECT_FALSE(third_was_first);
}

TEST_F(TurnTest, IsGivenUpAtTheDeadline) {
  const ManagerLock lock(core_.mutex);
  Turn first(core_);
  Turn second(core_);
  ASSERT_TRUE(take(first));
  const auto begun = core_.now();
  EXPECT_FALSE(take(second));
  EXPECT_GE(core_.now() - begun, core_.options.wait_limit);
  EXPECT_LT(core_.now() - begun, 2 * core_.options.wait_limit);
}

TEST_F(TurnTest, WhoGaveUpHoldsUpNobodyBehindIt) {
  const ManagerLock lock(core_.mutex);
  Turn first(core_);
  Turn second(core_);
  Turn third(core_);
  Turn fourth(core_);
  ASSERT_TRUE(take(first));
  rounds_.round = [&]() NO_THREAD_SAFETY_ANALYSIS {
    if (rounds_.rounds == 1) {
      const std::uint64_t changes = core_.waits.changes;
      EXPECT_FALSE(take_now(third));
      EXPECT_GT(core_.waits.changes, changes) << "those behind it are not told";
    }
    if (rounds_.rounds == 2) first.end();
    return true;
  };
  EXPECT_TRUE(take(second));
  second.end();
  EXPECT_TRUE(take_now(fourth));
}

TEST_F(TurnTest, EndsWithItsScopeAndTellsThoseThatWait) {
  const ManagerLock lock(core_.mutex);
  std::uint64_t changes = 0;
  {
    Turn first(core_);
    ASSERT_TRUE(take(first));
    changes = core_.waits.changes;
  }
  EXPECT_GT(core_.waits.changes, changes);
  Turn second(core_);
  EXPECT_TRUE(take_now(second));
}

TEST_F(TurnTest, EndsOnlyOnce) {
  const ManagerLock lock(core_.mutex);
  Turn first(core_);
  Turn second(core_);
  Turn third(core_);
  ASSERT_TRUE(take(first));
  first.end();
  ASSERT_TRUE(take(second));
  first.end();
  EXPECT_FALSE(take_now(third)) << "the second has the turn";
}

TEST_F(TurnTest, WhoNeverHadItEndsNobodyElsesTurn) {
  const ManagerLock lock(core_.mutex);
  Turn first(core_);
  Turn third(core_);
  ASSERT_TRUE(take(first));
  {
    Turn second(core_);
    ASSERT_FALSE(take_now(second));
  }
  EXPECT_FALSE(take_now(third)) << "the first has the turn";
}

TEST_F(TurnTest, IsNotWaitedForOnceTheManagerHasStopped) {
  const ManagerLock lock(core_.mutex);
  Turn first(core_);
  Turn second(core_);
  ASSERT_TRUE(take(first));
  core_.waits.stopped = true;
  EXPECT_FALSE(take(second));
  EXPECT_EQ(rounds_.rounds, 0);
}

}  // namespace
}  // namespace superpipe::testing
