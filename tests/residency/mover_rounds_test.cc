// One round of the worker: what it does first, what it leaves alone, and when it tries again.
#include "residency/mover_rounds.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <utility>
#include <vector>

#include "tests/residency/core_fixture.h"

namespace superpipe::testing {
namespace {

using std::chrono::milliseconds;

/// A budget of two pages, which is a promise: pages beyond it have to go.
class MoverRoundsTest : public MovingCoreTest {
 protected:
  explicit MoverRoundsTest(ResidencyOptions options = options_of(2))
      : MovingCoreTest(std::move(options)) {}

  void want(BufferId id, Want want) REQUIRES(manager_lock) {
    core_.fetches.push(want, {id, 0, core_.buffers[id].generation});
    core_.buffers[id].pieces[0].want = want;
  }
  void request_eviction(BufferId id) REQUIRES(manager_lock) {
    const std::array<BufferId, 1> victims{id};
    EXPECT_EQ(evictions_.request(victims), core_.buffers[id].footprint);
  }
  /// Buffers of one page on the device.
  std::vector<BufferId> make_dirty_ones(int number) REQUIRES(manager_lock) {
    std::vector<BufferId> made;
    made.reserve(static_cast<std::size_t>(number));
    for (int i = 0; i < number; ++i) made.push_back(make_dirty(1, i + 1));
    return made;
  }
  [[nodiscard]] PieceState place_of(BufferId id) const {
    return core_.buffers[id].pieces[0].state();
  }
};

TEST_F(MoverRoundsTest, WithNothingToDoNothingIsPending) {
  const ManagerLock lock(core_.mutex);
  make_dirty_ones(2);
  EXPECT_FALSE(mover_rounds_.is_pending());
  EXPECT_FALSE(mover_rounds_.run());
}

TEST_F(MoverRoundsTest, EvictsWhatExceedsTheBudgetAndGivesItsPagesBack) {
  const ManagerLock lock(core_.mutex);
  const auto buffers = make_dirty_ones(3);
  EXPECT_TRUE(mover_rounds_.is_pending());
  run_rounds();
  int out = 0;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (place_of(buffers[i]) == PieceState::kIn) continue;
    ++out;
    EXPECT_EQ(host_value(buffers[i]), static_cast<int>(i) + 1);
  }
  EXPECT_EQ(out, 1);
  EXPECT_EQ(core_.ledger.pages(), 2 * kGranule);
  EXPECT_EQ(device_.device_bytes(), 2 * kGranule);
  EXPECT_FALSE(mover_rounds_.is_pending());
}

TEST_F(MoverRoundsTest, GivesPagesBackThatNoLiveBufferHoldsBeforeItEvicts) {
  const ManagerLock lock(core_.mutex);
  make_dirty_ones(2);
  make_cached(1);
  make_idle_page(2);
  run_rounds();
  EXPECT_EQ(core_.ledger.pages(), 2 * kGranule);
  EXPECT_EQ(device_.calls(Call::kCopyToHost), 0);
}

TEST_F(MoverRoundsTest, EvictsNoMoreThanWhatIsNotComingAlready) {
  const ManagerLock lock(core_.mutex);
  const BufferId leaving = make_dirty(3);
  const BufferId staying = make_dirty(1);
  use(leaving, blocked_stream());
  request_eviction(leaving);  // of more than what exceeds the budget
  run_rounds();
  EXPECT_EQ(evictions_.size(), 1U);
  EXPECT_EQ(place_of(staying), PieceState::kIn);
}

TEST_F(MoverRoundsTest, WhenNobodyCanGoItTriesAgainAtTheNextSampleOnly) {
  const ManagerLock lock(core_.mutex);
  const auto buffers = make_dirty_ones(3);
  for (const BufferId id : buffers) core_.buffers[id].pins = 1;
  EXPECT_FALSE(mover_rounds_.run());
  EXPECT_FALSE(mover_rounds_.is_pending()) << "the worker would not come to rest";
  for (const BufferId id : buffers) core_.buffers[id].pins = 0;
  EXPECT_FALSE(mover_rounds_.run());
  EXPECT_TRUE(evictions_.empty());
  (void)core_.sampler.sample();
  EXPECT_TRUE(mover_rounds_.is_pending());
  run_rounds();
  EXPECT_EQ(core_.ledger.pages(), 2 * kGranule);
}

TEST_F(MoverRoundsTest, BuffersThatCouldNotGoBeforeAreAskedAgain) {
  const ManagerLock lock(core_.mutex);
  for (const BufferId id : make_dirty_ones(3))
    core_.buffers[id].pieces[0].evict_failed = core_.turns;
  run_rounds();
  EXPECT_EQ(core_.ledger.pages(), 2 * kGranule);
}

TEST_F(MoverRoundsTest, DemandsAreFetchedInOrderBeforePrefetchesAndOneInARound) {
  const ManagerLock lock(core_.mutex);
  const std::array<BufferId, 3> wanted{make_out(1), make_out(1), make_out(1)};
  core_.ledger.set_limit(4 * kGranule, true);
  want(wanted[2], Want::kPrefetch);
  want(wanted[0], Want::kDemand);
  want(wanted[1], Want::kDemand);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_EQ(place_of(wanted[i]), PieceState::kOut) << i;
    EXPECT_TRUE(mover_rounds_.run());
    EXPECT_EQ(place_of(wanted[i]), PieceState::kIn) << i;
  }
}

TEST_F(MoverRoundsTest, FetchesGoBeforeEvictions) {
  const ManagerLock lock(core_.mutex);
  const BufferId leaving = make_dirty(1);
  const BufferId arriving = make_out(1);
  request_eviction(leaving);
  want(arriving, Want::kPrefetch);
  EXPECT_TRUE(mover_rounds_.run());
  EXPECT_EQ(place_of(arriving), PieceState::kIn);
  EXPECT_EQ(place_of(leaving), PieceState::kIn);
  EXPECT_TRUE(mover_rounds_.run());
  EXPECT_EQ(place_of(leaving), PieceState::kOut);
}

TEST_F(MoverRoundsTest, ADemandWaitsForTheEvictionThatMakesItsRoom) {
  const ManagerLock lock(core_.mutex);
  const auto buffers = make_dirty_ones(2);
  const BufferId arriving = make_out(1, 7);
  want(arriving, Want::kDemand);
  run_rounds();
  EXPECT_EQ(place_of(arriving), PieceState::kOut);
  EXPECT_TRUE(mover_rounds_.is_pending());
  request_eviction(buffers[0]);
  run_rounds();
  EXPECT_EQ(place_of(arriving), PieceState::kIn);
  EXPECT_EQ(device_value(arriving), 7);
  EXPECT_EQ(host_value(buffers[0]), 1);
  EXPECT_EQ(device_.peak_bytes(), 2 * kGranule);
}

TEST_F(MoverRoundsTest, APrefetchWithoutRoomIsDropped) {
  const ManagerLock lock(core_.mutex);
  make_dirty_ones(2);
  const BufferId id = make_out(1);
  want(id, Want::kPrefetch);
  run_rounds();
  EXPECT_EQ(core_.buffers[id].pieces[0].want, Want::kNobody);
  EXPECT_FALSE(mover_rounds_.is_pending());
}

TEST_F(MoverRoundsTest, ABufferWhoseHostCopyIsInUseIsFetchedLater) {
  const ManagerLock lock(core_.mutex);
  const BufferId leaving = make_dirty(1);
  const BufferId busy = make_out(1, 7);
  core_.buffers[busy].host.pins = 1;
  want(busy, Want::kDemand);
  request_eviction(leaving);
  run_rounds();
  EXPECT_EQ(place_of(busy), PieceState::kOut);
  EXPECT_EQ(device_.calls(Call::kCopyToDevice), 0);
  EXPECT_EQ(place_of(leaving), PieceState::kOut) << "evictions are not held up";
  core_.buffers[busy].host.pins = 0;
  run_rounds();
  EXPECT_EQ(device_value(busy), 7);
}

TEST_F(MoverRoundsTest, ABufferWhoseHostCopyIsInUseHoldsUpNoOtherFetch) {
  const ManagerLock lock(core_.mutex);
  const BufferId busy = make_out(1, 7);
  const BufferId demanded = make_out(1, 8);
  const BufferId prefetched = make_out(1, 9);
  core_.buffers[busy].host.pins = 1;
  want(busy, Want::kDemand);
  want(demanded, Want::kDemand);
  want(prefetched, Want::kPrefetch);
  run_rounds();
  EXPECT_EQ(device_value(demanded), 8);
  EXPECT_EQ(device_value(prefetched), 9);
  EXPECT_EQ(place_of(busy), PieceState::kOut);
  EXPECT_TRUE(mover_rounds_.is_pending());
}

TEST_F(MoverRoundsTest, FetchesThatNobodyWantsAnyMoreAreDropped) {
  const ManagerLock lock(core_.mutex);
  const BufferId freed = make_out(1);
  const BufferId taken_back = make_out(1);
  const BufferId in_place = make_clean(1);
  for (const BufferId id : {freed, taken_back, in_place}) want(id, Want::kPrefetch);
  ++core_.buffers[freed].generation;
  core_.buffers[taken_back].pieces[0].want = Want::kNobody;
  EXPECT_FALSE(mover_rounds_.run());
  EXPECT_TRUE(core_.fetches.empty());
  EXPECT_EQ(core_.buffers[freed].pieces[0].want, Want::kPrefetch)
      << "it is another buffer's by now";
  EXPECT_EQ(core_.buffers[in_place].pieces[0].want, Want::kNobody);
  EXPECT_EQ(device_.calls(Call::kCopyToDevice), 0);
}

TEST_F(MoverRoundsTest, AsksTheDeviceAboutPassThroughMemoryWhenThatIsDueAndRestsNoLonger) {
  const ManagerLock lock(core_.mutex);
  (void)core_.sampler.sample();
  const int asked = device_.calls(Call::kUsage);
  (void)mover_rounds_.run();
  EXPECT_EQ(device_.calls(Call::kUsage), asked);
  const auto rest = mover_rounds_.longest_rest();
  EXPECT_GT(rest, milliseconds{0});
  pass(std::chrono::ceil<milliseconds>(rest));
  EXPECT_EQ(mover_rounds_.longest_rest(), milliseconds{0});
  (void)mover_rounds_.run();
  EXPECT_EQ(device_.calls(Call::kUsage), asked + 1);
}

TEST_F(MoverRoundsTest, MetersAreToldWhenWhatTheyWaitForHasCompleted) {
  const ManagerLock lock(core_.mutex);
  core_.passes.note_start(blocked_event(), 0);
  run_rounds();
  EXPECT_TRUE(mover_rounds_.is_pending());
  unblock();
  EXPECT_TRUE(mover_rounds_.run());
  EXPECT_FALSE(mover_rounds_.is_pending());
}

TEST_F(MoverRoundsTest, AMeterDoesNotWaitForAnEventThatFailed) {
  const ManagerLock lock(core_.mutex);
  core_.passes.note_start(blocked_event(), 0);
  device_.fail(Call::kIsComplete, 1, Status::kDeviceError);
  EXPECT_TRUE(mover_rounds_.run());
  EXPECT_FALSE(mover_rounds_.is_pending());
}

/// The user allows launches that exceed the budget.
class OverflowRoundsTest : public MoverRoundsTest {
 protected:
  OverflowRoundsTest() : MoverRoundsTest(allowing_overflow()) {}
  static ResidencyOptions allowing_overflow() {
    ResidencyOptions options = options_of(2);
    options.overflow_allowed = true;
    return options;
  }
};

TEST_F(OverflowRoundsTest, NothingIsEvictedForTheLimit) {
  const ManagerLock lock(core_.mutex);
  make_dirty_ones(3);
  ASSERT_EQ(core_.ledger.excess(), kGranule);
  EXPECT_FALSE(mover_rounds_.is_pending());
  EXPECT_FALSE(mover_rounds_.run());
  EXPECT_TRUE(evictions_.empty());
}

/// The limit follows from a number of layers, and is no promise.
class SoftLimitRoundsTest : public MoverRoundsTest {
 protected:
  SoftLimitRoundsTest() : MoverRoundsTest(keeping_one_layer()) {}
  static ResidencyOptions keeping_one_layer() {
    ResidencyOptions options = options_of(2);
    options.policy.budget = std::nullopt;
    options.policy.k = 1;
    return options;
  }
};

TEST_F(SoftLimitRoundsTest, NothingIsEvictedForTheLimit) {
  const ManagerLock lock(core_.mutex);
  make_dirty_ones(3);
  core_.page_limit.refresh();
  ASSERT_EQ(core_.ledger.excess(), 2 * kGranule);
  EXPECT_FALSE(mover_rounds_.run());
  EXPECT_TRUE(evictions_.empty());
}

TEST_F(MoverRoundsTest, AreAwaitedWhileAThreadOfTheProgramWaitsUnlessItRests) {
  const ManagerLock lock(core_.mutex);
  EXPECT_FALSE(mover_rounds_.is_awaited());
  bool was_awaited = false;
  rounds_.round = [&]() NO_THREAD_SAFETY_ANALYSIS {
    was_awaited = mover_rounds_.is_awaited();
    return false;
  };
  EXPECT_TRUE(core_.wait_change(core_.now() + std::chrono::seconds{1}));
  EXPECT_TRUE(was_awaited);
  core_.pacing.let_rest(core_.now() + std::chrono::seconds{1});
  EXPECT_TRUE(core_.rest(core_.now() + std::chrono::seconds{1}));
  EXPECT_FALSE(was_awaited);
  pass(std::chrono::seconds{2});
  (void)mover_rounds_.run();
  EXPECT_FALSE(core_.pacing.has_resting()) << "whether or not everything fits by then";
}

}  // namespace
}  // namespace superpipe::testing
