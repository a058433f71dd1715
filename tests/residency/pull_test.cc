// Residency asks policy for one transfer after the other, and tells it where each buffer is.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "tests/residency/core_fixture.h"

namespace superpipe::testing {
namespace {

/// A budget of three pages, and a program that uses buffers of one page in turn.
class PullTest : public MovingCoreTest {
 protected:
  static ResidencyOptions auto_options() {
    ResidencyOptions options = options_of(3);
    options.policy.kind = PolicyKind::kAuto;
    return options;
  }
  explicit PullTest(const ResidencyOptions& options = auto_options()) : MovingCoreTest(options) {}

  void SetUp() override { stream_ = device_.program_stream(); }

  /// Three buffers on the device and one that is out, in the order of their use.
  std::vector<BufferId> make_four() REQUIRES(manager_lock) {
    return {make_clean(1, 1), make_clean(1, 2), make_clean(1, 3), make_out(1, 4)};
  }

  /// Announces a launch that names `id`, and submits it to `stream` if the buffer is in place.
  void launch(BufferId id, StreamHandle stream) REQUIRES(manager_lock) {
    const std::array<BufferId, 1> named{id};
    const std::uint64_t kernel = 100 + index_of(id);
    const Decision decision = core_.policy.on_launch(Access{KernelId{kernel}, named});
    EXPECT_TRUE(decision.empty()) << "policy is asked, and does not tell";
    if (place_of(id) == PieceState::kIn) use(id, stream);
  }
  void launch(BufferId id) REQUIRES(manager_lock) { launch(id, stream_); }

  /// Has policy see a pass three times, while nothing moves.
  void learn(const std::vector<BufferId>& pass) REQUIRES(manager_lock) {
    for (int i = 0; i < 3; ++i) {
      for (const BufferId id : pass) launch(id);
    }
    device_.drain();
  }

  /// make_four(), of which policy knows the order and has had done what it wants.
  std::vector<BufferId> make_known_pass() REQUIRES(manager_lock) {
    auto pass = make_four();
    learn(pass);
    settle();
    return pass;
  }

  /// Has policy know `pass`, and announces its first two launches again: the fourth is missing.
  void begin_fourth_pass(const std::vector<BufferId>& pass) REQUIRES(manager_lock) {
    learn(pass);
    launch(pass[0]);
    launch(pass[1]);
  }

  /// A launch is begun without the buffer.
  void begin_without(BufferId id) REQUIRES(manager_lock) {
    left_out_.begin(id);
    left_out_.prepare_end(std::array{id}, KernelId{7});
  }
  /// Whether rounds have nothing to do soon, while work of the program that is blocked goes on.
  bool comes_to_rest() REQUIRES(manager_lock) {
    constexpr int kMostRounds = 100;
    for (int rounds = 0; rounds < kMostRounds; ++rounds) {
      device_.drain();
      if (!mover_rounds_.run() && !mover_rounds_.run()) return true;
    }
    return false;
  }

  /// Lets all work end, and runs rounds until nothing is left to do even with what has completed.
  void settle() REQUIRES(manager_lock) {
    for (int i = 0; i < 4; ++i) run_rounds();
  }

  [[nodiscard]] PieceState place_of(BufferId id) const {
    return core_.buffers[id].pieces[0].state();
  }

  StreamHandle stream_{};
};

TEST_F(PullTest, BringsWhatIsUsedNextForWhatIsUsedLast) {
  const ManagerLock lock(core_.mutex);
  const auto pass = make_four();
  begin_fourth_pass(pass);
  settle();
  EXPECT_EQ(place_of(pass[3]), PieceState::kIn) << "two launches before its own";
  EXPECT_EQ(device_value(pass[3]), 4);
  EXPECT_EQ(place_of(pass[0]), PieceState::kIn);
  EXPECT_EQ(place_of(pass[1]), PieceState::kOut)
      << "it was used just now: all others are used before";
  EXPECT_EQ(place_of(pass[2]), PieceState::kIn);
  EXPECT_EQ(core_.counters.prefetches, 1U);
  EXPECT_LE(core_.ledger.pages(), 3 * kGranule);
}

TEST_F(PullTest, BringsWhatALaunchWasBegunWithoutWhenThatHasCompletedAndRestsUntilThen) {
  const ManagerLock lock(core_.mutex);
  const auto pass = make_four();
  begin_without(pass[3]);
  begin_fourth_pass(pass);
  EXPECT_TRUE(comes_to_rest());
  EXPECT_EQ(place_of(pass[3]), PieceState::kOut);
  left_out_.end(pass[3], true, blocked_event());
  EXPECT_TRUE(comes_to_rest());
  EXPECT_EQ(place_of(pass[3]), PieceState::kOut);
  unblock();
  settle();
  EXPECT_EQ(place_of(pass[3]), PieceState::kIn);
}

// Launches of its kernel may be under way all the time.
TEST_F(PullTest, BringsWhatIsUsedAfterABufferThatALaunchWasBegunWithout) {
  const ManagerLock lock(core_.mutex);
  auto pass = make_four();
  pass.push_back(make_out(1, 5));
  begin_without(pass[3]);
  begin_fourth_pass(pass);
  EXPECT_TRUE(comes_to_rest());
  EXPECT_EQ(place_of(pass[3]), PieceState::kOut);
  EXPECT_EQ(place_of(pass[4]), PieceState::kIn);
  left_out_.end(pass[3], false, nullptr);
  settle();
  EXPECT_EQ(place_of(pass[3]), PieceState::kIn)
      << "policy hears of it when the launch comes to nothing";
}

TEST_F(PullTest, PolicyHearsWhatALaunchIsBegunWithoutAndThatItCameToNothing) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_out(1, 4);
  const Piece& piece = core_.buffers[id].pieces[0];
  ASSERT_FALSE(piece.told_in);
  left_out_.begin(id);
  EXPECT_TRUE(piece.told_in) << "it cannot come before others";
  left_out_.end(id, false, nullptr);
  EXPECT_FALSE(piece.told_in);
}

TEST_F(PullTest, BringsNothingWhenItCannotForesee) {
  const ManagerLock lock(core_.mutex);
  const auto buffers = make_four();
  for (const BufferId id : buffers) launch(id);
  settle();
  EXPECT_EQ(place_of(buffers[3]), PieceState::kOut);
  EXPECT_EQ(core_.counters.prefetches, 0U);
}

TEST_F(PullTest, BringsNothingForWhatIsUsedSooner) {
  const ManagerLock lock(core_.mutex);
  const auto pass = make_known_pass();
  EXPECT_EQ(place_of(pass[3]), PieceState::kOut)
      << "it was used just now: all others are used before";
}

TEST_F(PullTest, TheNextLaunchWakesTheWorkerOnceNothingIsToBeDone) {
  const ManagerLock lock(core_.mutex);
  const auto pass = make_known_pass();
  EXPECT_FALSE(mover_rounds_.is_pending());
  EXPECT_TRUE(core_.pull_awaits_launch);
}

TEST_F(PullTest, WhileLaunchesComeTheyNeedNotWakeTheWorker) {
  const ManagerLock lock(core_.mutex);
  const auto pass = make_known_pass();
  launch(pass[0]);
  EXPECT_FALSE(mover_rounds_.run());
  EXPECT_TRUE(mover_rounds_.is_pending());
  EXPECT_FALSE(core_.pull_awaits_launch);
}

TEST_F(PullTest, TakesBackWhatWaitsForAPageWhenAnotherOrderBegins) {
  const ManagerLock lock(core_.mutex);
  const auto pass = make_four();
  begin_fourth_pass(pass);
  const Buffer& wanted = core_.buffers[pass[3]];
  for (int i = 0; i < 20 && wanted.pieces[0].want == Want::kNobody; ++i) {
    device_.drain();
    (void)mover_rounds_.run();
  }
  ASSERT_EQ(wanted.pieces[0].want, Want::kPrefetch) << "its victim has not gone yet";
  EXPECT_TRUE(wanted.pieces[0].told_in);
  for (int i = 0; i < 20; ++i) launch(pass[2]);
  // The victim is used again, so that the page does not come.
  evictions_.revoke(pass[0]);
  evictions_.revoke(pass[1]);
  for (int i = 0; i < 4; ++i) (void)mover_rounds_.run();
  EXPECT_EQ(wanted.pieces[0].want, Want::kNobody);
  EXPECT_FALSE(wanted.pieces[0].told_in);
}

TEST_F(PullTest, APrefetchThatFailsIsTriedAgainAtTheNextLaunchOnly) {
  const ManagerLock lock(core_.mutex);
  const auto pass = make_four();
  begin_fourth_pass(pass);
  device_.fail(Call::kCopyToDevice, 1, Status::kDeviceError, true);
  int rounds = 0;
  for (int idle = 0; idle < 10 && rounds < 1000; ++rounds) {
    device_.drain();
    idle = mover_rounds_.run() ? 0 : idle + 1;
  }
  EXPECT_LT(rounds, 1000) << "the worker does not come to rest";
  EXPECT_EQ(device_.calls(Call::kCopyToDevice), 1);
  EXPECT_TRUE(core_.pull_awaits_launch);
  EXPECT_EQ(place_of(pass[3]), PieceState::kOut);
  launch(pass[2]);
  settle();
  EXPECT_EQ(device_.calls(Call::kCopyToDevice), 2);
}

TEST_F(PullTest, OnlyWhatCrossesTheLinkKeepsItBusy) {
  const ManagerLock lock(core_.mutex);
  const auto demand = [this](BufferId id) REQUIRES(manager_lock) {
    core_.fetches.push(Want::kDemand, {id, 0, core_.buffers[id].generation});
    core_.buffers[id].pieces[0].want = Want::kDemand;
    (void)mover_rounds_.run();
    EXPECT_EQ(place_of(id), PieceState::kIn);
    EXPECT_NE(core_.buffers[id].pieces[0].ready, nullptr);
  };
  for (int i = 0; i < 3; ++i) evictor_.evict({make_dirty(1, i), 0});
  demand(make_fresh(1));  // its page waits for a write-back, and nothing is copied to it
  EXPECT_TRUE(core_.under_way.empty());
  demand(make_out(1, 7));
  EXPECT_FALSE(core_.under_way.empty());
  device_.drain();
}

TEST_F(PullTest, PolicyHearsOfARequestedEvictionAndOfItsEnd) {
  const ManagerLock lock(core_.mutex);
  const auto buffers = make_four();
  const std::array<BufferId, 1> victim{buffers[0]};
  EXPECT_TRUE(core_.buffers[buffers[0]].pieces[0].told_in);
  EXPECT_EQ(evictions_.request(victim), kGranule);
  EXPECT_FALSE(core_.buffers[buffers[0]].pieces[0].told_in);
  evictions_.revoke(buffers[0]);
  EXPECT_TRUE(core_.buffers[buffers[0]].pieces[0].told_in);
}

TEST_F(PullTest, PolicyHearsThatAnEvictionHasFailed) {
  const ManagerLock lock(core_.mutex);
  const auto buffers = make_four();
  device_.fail(Call::kUnmap, 1, Status::kDeviceError);
  evictor_.evict({buffers[0], 0});
  EXPECT_EQ(place_of(buffers[0]), PieceState::kIn);
  EXPECT_TRUE(core_.buffers[buffers[0]].pieces[0].told_in);
  core_.counters.errors = 0;
}

TEST_F(PullTest, APolicyThatIsBegunAnewLearnsWhereAllIs) {
  const ManagerLock lock(core_.mutex);
  const auto buffers = make_four();
  core_.asks_policy = false;  // as when host memory ran out in the midst of an answer
  ASSERT_TRUE(core_.may_ask_policy());
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    EXPECT_EQ(core_.buffers[buffers[i]].pieces[0].told_in, i < 3) << i;
  }
  // Only buffers that it knows to be on the device can be victims.
  std::vector<BufferId> victims;
  core_.puller()->visit_victims(0, [&](BufferId id) {
    victims.push_back(id);
    return true;
  });
  EXPECT_EQ(victims.size(), 3U);
}

/// A first pass over buffers that were loaded in the order of their use: twenty have been used, of
/// which the device has the last ones, and the next is out.
class FirstPassTest : public PullTest {
 protected:
  static constexpr std::size_t kUsed = 20;

  /// `make`: makes a buffer that is on the device. @return the buffer that is used next.
  template <typename Make>
  BufferId use_many(const Make& make) REQUIRES(manager_lock) {
    std::vector<BufferId> loaded;
    for (std::size_t i = 0; i < kUsed; ++i) {
      loaded.push_back(i + 3 < kUsed ? make_out(1) : make());
    }
    const BufferId next = make_out(1, 9);
    for (const BufferId id : loaded) launch(id);
    return next;
  }
};

TEST_F(FirstPassTest, BringsWhatWasAllocatedNextForWhatWasUsed) {
  const ManagerLock lock(core_.mutex);
  const BufferId next = use_many([this]() REQUIRES(manager_lock) { return make_clean(1); });
  settle();
  EXPECT_EQ(place_of(next), PieceState::kIn);
  EXPECT_EQ(device_value(next), 9);
  EXPECT_EQ(core_.counters.prefetches, 1U);
}

TEST_F(FirstPassTest, LeavesTheQueueOfTheLinkToWhatIsForeseen) {
  const ManagerLock lock(core_.mutex);
  const BufferId next = use_many([this]() REQUIRES(manager_lock) { return make_clean(1); });
  for (int i = 0; i < 2; ++i) core_.under_way.add(blocked_event(), kGranule, core_.now());
  for (int i = 0; i < 20; ++i) (void)mover_rounds_.run();
  EXPECT_EQ(place_of(next), PieceState::kOut) << "two transfers are under way";
  EXPECT_TRUE(mover_rounds_.is_pending());
  unblock();
  settle();
  EXPECT_EQ(place_of(next), PieceState::kIn);
}

TEST_F(FirstPassTest, PinsNothingForIt) {
  const ManagerLock lock(core_.mutex);
  const BufferId next = use_many([this]() REQUIRES(manager_lock) { return make_dirty(1); });
  const Bytes pinned = core_.host.pinned();
  settle();
  EXPECT_EQ(place_of(next), PieceState::kOut) << "what could go for it has no slab";
  EXPECT_EQ(core_.host.pinned(), pinned);
  EXPECT_EQ(core_.counters.prefetches, 0U);
}

TEST_F(FirstPassTest, RestsWhileOnlyBuffersWithoutSlabsAreInUse) {
  const ManagerLock lock(core_.mutex);
  stream_ = blocked_stream();
  (void)use_many([this]() REQUIRES(manager_lock) { return make_dirty(1); });
  for (int i = 0; i < 20; ++i) (void)mover_rounds_.run();
  EXPECT_TRUE(core_.pull_awaits_launch) << "no end of their work would let any of them go";
  EXPECT_FALSE(mover_rounds_.is_pending());
  unblock();
}

/// Buffers of two pages come and go by halves.
class PullPiecesTest : public PullTest {
 protected:
  PullPiecesTest() : PullTest(options_in_pages()) {}

 private:
  static ResidencyOptions options_in_pages() {
    ResidencyOptions options = auto_options();
    options.piece_size = kGranule;
    return options;
  }
};

// Policy hears that a piece of it is not to stay, and wants the buffer.
TEST_F(PullPiecesTest, RestsWhileAPieceOfWhatALaunchWasBegunWithoutIsAboutToLeave) {
  const ManagerLock lock(core_.mutex);
  const std::vector<BufferId> pass = {make_clean(1, 1), make_clean(1, 2), make_out(2, 3)};
  const BufferId id = pass[2];
  ASSERT_EQ(mover_.fetch({id, 0}, true), ContentMover::Fetched::kSettled);
  learn(pass);
  const StreamHandle running = blocked_stream();
  use(id, running);
  begin_without(id);
  left_out_.end(id, true, end_of(running));
  ASSERT_EQ(evictions_.request(std::array{id}), kGranule);
  launch(pass[0]);
  launch(pass[1]);
  EXPECT_TRUE(comes_to_rest());
  const Piece& missing = core_.buffers[id].pieces[1];
  EXPECT_EQ(missing.state(), PieceState::kOut);
  EXPECT_EQ(missing.want, Want::kNobody);
  unblock();
}

/// Under a plan: launches that name two buffers on the device, one that nothing was written to, and
/// one that is out.
class PlannedPullTest : public PullTest {
 protected:
  PlannedPullTest() : PullTest(planned_options()) {}

  std::vector<BufferId> make_planned() REQUIRES(manager_lock) {
    const std::vector<BufferId> made{make_clean(1, 1), make_clean(1, 2), make_fresh(1),
                                     make_out(1, 4)};
    core_.policy.on_host_write(made[3]);
    return made;
  }
  /// What policy wants next crosses the link, which has enough to do.
  void block_link() REQUIRES(manager_lock) {
    for (int i = 0; i < 3; ++i) core_.under_way.add(blocked_event(), kGranule, core_.now());
    ASSERT_TRUE(core_.has_link_enough());
  }

 private:
  static ResidencyOptions planned_options() {
    ResidencyOptions options = auto_options();
    RecordedRun run;
    run.footprints.assign(4, kGranule);
    for (std::uint32_t i = 0; i < 4; ++i) {
      run.names.push_back(i);
      run.launches.push_back({KernelId{100 + i}, i, 1});
    }
    options.policy.recorded = std::make_shared<const RecordedRun>(std::move(run));
    return options;
  }
};

TEST_F(PlannedPullTest, WhileTheLinkHasEnoughToDoBringsWhatNeedsPagesAlone) {
  const ManagerLock lock(core_.mutex);
  const auto planned = make_planned();
  launch(planned[0]);
  ASSERT_EQ(core_.puller()->next_target()->id, planned[3]);
  block_link();
  for (int i = 0; i < 20; ++i) (void)mover_rounds_.run();
  EXPECT_EQ(place_of(planned[2]), PieceState::kIn);
  EXPECT_EQ(place_of(planned[3]), PieceState::kOut);
  EXPECT_EQ(device_.calls(Call::kCopyToDevice), 0);
  unblock();
  settle();
  EXPECT_EQ(place_of(planned[3]), PieceState::kIn);
  EXPECT_EQ(device_value(planned[3]), 4);
}

TEST_F(PlannedPullTest, LooksOnceInEachLaunchForWhoGoesForIt) {
  const ManagerLock lock(core_.mutex);
  const auto planned = make_planned();
  const BufferId other = make_clean(1, 9);
  for (const BufferId id : {planned[0], other}) core_.buffers[id].pins = 1;
  launch(planned[0]);
  ASSERT_EQ(core_.puller()->next_target()->id, planned[3]);
  block_link();
  const auto run_some = [this]() REQUIRES(manager_lock) {
    for (int i = 0; i < 20; ++i) (void)mover_rounds_.run();
  };
  run_some();
  EXPECT_EQ(place_of(planned[2]), PieceState::kOut);
  core_.buffers[other].pins = 0;
  run_some();
  EXPECT_EQ(place_of(planned[2]), PieceState::kOut) << "it was looked for already";
  launch(planned[1]);
  run_some();
  EXPECT_EQ(place_of(planned[2]), PieceState::kIn);
  EXPECT_EQ(place_of(other), PieceState::kOut);
  core_.buffers[planned[0]].pins = 0;
  unblock();
}

class WaitingPolicyTest : public PullTest {
 protected:
  WaitingPolicyTest() : PullTest(waiting_options()) {}

 private:
  static ResidencyOptions waiting_options() {
    ResidencyOptions options = auto_options();
    options.policy_waits = true;
    return options;
  }
};

TEST_F(WaitingPolicyTest, IsAskedOnceBuffersTakeThreeQuartersOfTheLimit) {
  const ManagerLock lock(core_.mutex);
  std::vector<BufferId> buffers = {make_clean(1, 1), make_clean(1, 2)};
  EXPECT_FALSE(core_.may_ask_policy());
  EXPECT_EQ(core_.puller(), nullptr);
  EXPECT_FALSE(core_.buffers[buffers[0]].pieces[0].told_in);
  buffers.push_back(make_clean(1, 3));
  ASSERT_NE(core_.puller(), nullptr);
  for (const BufferId id : buffers)
    EXPECT_TRUE(core_.buffers[id].pieces[0].told_in) << index_of(id);
}

TEST_F(WaitingPolicyTest, IsAskedWhoShallGoHoweverLittleThereIs) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_clean(1, 1);
  EXPECT_EQ(evictions_.request_bytes(kGranule, Bytes{}), kGranule);
  EXPECT_NE(core_.puller(), nullptr);
  EXPECT_NE(core_.buffers[id].pieces[0].evict_ticket, 0U);
}

}  // namespace
}  // namespace superpipe::testing
