// How a working set gets in: what is asked for, what has to go, and when that cannot be.
#include "residency/room/admission.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "residency/pieces/page_supply.h"
#include "residency/room/eviction_queue.h"
#include "residency/room/turn.h"
#include "residency/transfer/stream_marker.h"
#include "residency/uses/buffer_lifetimes.h"
#include "tests/residency/core_fixture.h"

namespace superpipe::testing {
namespace {

/// A budget of two pages. The worker's rounds only keep the accounts of what they move: no content.
class AdmissionTest : public CoreTest {
 protected:
  explicit AdmissionTest(ResidencyOptions options = options_of(2)) : CoreTest(std::move(options)) {
    rounds_.round = [this]() NO_THREAD_SAFETY_ANALYSIS { return fetch_one() || evict_one(); };
  }

  /// What a launch does about its buffers. Those that are brought in stay pinned.
  Status bring_in(const std::vector<BufferId>& buffers, const Decision& decision = {})
      REQUIRES(manager_lock) {
    for (const BufferId id : buffers) ++core_.buffers[id].pins;
    Turn turn(core_);
    EXPECT_TRUE(turn.take(core_.now() + core_.options.wait_limit));
    return admission_.bring_in({buffers, KernelId{7}, false, kNoSlot, &turn}, decision);
  }
  /// A buffer that is on the device, as far as the accounts say.
  BufferId make_in() REQUIRES(manager_lock) {
    const BufferId id = make_out(1);
    arrive(id);
    return id;
  }
  [[nodiscard]] PieceState place_of(BufferId id) const {
    return core_.buffers[id].pieces[0].state();
  }
  /// Whether exactly one warning was given, and says `what`.
  bool warned(const std::string& what) REQUIRES(manager_lock) {
    const auto warnings = core_.warnings.take();
    return warnings.size() == 1 && warnings[0].find(what) != std::string::npos;
  }

  void arrive(BufferId id) REQUIRES(manager_lock) {
    const Buffer& buffer = core_.buffers[id];
    core_.ledger.begin_creation(buffer.footprint);
    core_.ledger.end_creation(buffer.footprint, true);
    core_.pieces.enter({id, 0}, PieceState::kFetching);
    core_.pieces.enter({id, 0}, PieceState::kIn, Page{});
  }
  bool fetch_one() REQUIRES(manager_lock) {
    const auto entry = core_.fetches.at(0);
    if (!entry) return false;
    Buffer& buffer = core_.buffers[entry->piece.id];
    if (fetches_fail_ == Status::kOk && !buffer.pieces[0].may_exceed_limit &&
        !core_.ledger.admits(buffer.footprint)) {
      return false;
    }
    core_.fetches.erase(0);
    fetched_.push_back(entry->piece.id);
    if (fetches_fail_ == Status::kOk) {
      arrive(entry->piece.id);
    } else {
      buffer.pieces[0].fetch_status = fetches_fail_;
    }
    buffer.pieces[0].want = Want::kNobody;
    return true;
  }
  bool evict_one() REQUIRES(manager_lock) {
    const auto id = evictions_.take_next();
    if (!id) return false;
    Buffer& buffer = core_.buffers[id->buffer];
    core_.ledger.begin_destruction(buffer.footprint);
    core_.ledger.end_destruction(buffer.footprint, true);
    (void)core_.pieces.leave(*id);
    return true;
  }

  Status fetches_fail_ = Status::kOk;  ///< how the worker's fetches end
  std::vector<BufferId> fetched_;      ///< that the worker has carried out, failed ones too
  StreamMarker streams_{core_};
  PageSupply pages_{core_};
  PageMover page_mover_{core_.device, core_.events, core_.transfers, core_.digester};
  ContentMover mover_{core_, streams_, pages_, page_mover_};
  UseCompletion completion_{core_, streams_};
  EvictionQueue evictions_{core_, streams_, mover_, completion_};
  Admission admission_{core_, pages_, evictions_};
};

TEST_F(AdmissionTest, WhatIsInPlaceTakesNoRound) {
  const ManagerLock lock(core_.mutex);
  const std::vector<BufferId> set{make_in(), make_in()};
  EXPECT_EQ(bring_in(set), Status::kOk);
  EXPECT_EQ(rounds_.rounds, 0);
  EXPECT_TRUE(core_.fetches.empty());
}

TEST_F(AdmissionTest, DemandsWhatIsOutInTheOrderOfTheSet) {
  const ManagerLock lock(core_.mutex);
  const std::vector<BufferId> set{make_out(1), make_out(1)};
  EXPECT_EQ(bring_in(set), Status::kOk);
  EXPECT_EQ(fetched_, set);
}

TEST_F(AdmissionTest, EvictsWhatTheSetNeedsAndSparesPinnedBuffers) {
  const ManagerLock lock(core_.mutex);
  const BufferId pinned = make_in();
  const BufferId idle = make_in();
  const BufferId needed = make_out(1);
  core_.buffers[pinned].pins = 1;
  EXPECT_EQ(bring_in({needed}), Status::kOk);
  EXPECT_EQ(place_of(needed), PieceState::kIn);
  EXPECT_EQ(place_of(pinned), PieceState::kIn);
  EXPECT_EQ(place_of(idle), PieceState::kOut);
  EXPECT_TRUE(core_.ledger.is_within_limit());
}

TEST_F(AdmissionTest, WaitsForRoomThatABufferTakesWhichIsAboutToBegin) {
  const ManagerLock lock(core_.mutex);
  core_.buffers[make_in()].pinned_forever = true;
  Buffer& beginning = core_.buffers[make_in()];
  beginning.live = false;
  beginning.is_beginning = true;
  in_round(2, [&] {
    beginning.live = true;
    beginning.is_beginning = false;
  });
  EXPECT_EQ(bring_in({make_out(1)}), Status::kOk) << "once it lives it may go";
}

TEST_F(AdmissionTest, ASetAboveABudgetFailsBeforeAnythingMoves) {
  const ManagerLock lock(core_.mutex);
  const BufferId in = make_in();
  EXPECT_EQ(bring_in({in, make_out(1), make_out(1)}), Status::kWorkingSetTooLarge);
  EXPECT_EQ(rounds_.rounds, 0);
  EXPECT_TRUE(core_.fetches.empty());
  EXPECT_EQ(core_.ledger.pages(), kGranule);
  EXPECT_TRUE(warned("raise the budget by at least 4096 bytes"));
}

TEST_F(AdmissionTest, TheRefusalThatLackedMostIsKept) {
  const ManagerLock lock(core_.mutex);
  const BufferId page = make_out(1);
  const BufferId more = make_out(1);
  const BufferId most = make_out(2);
  EXPECT_FALSE(core_.worst_refusal);
  for (const auto& set : {std::vector{page, more, most}, std::vector{page, most}}) {
    EXPECT_EQ(bring_in(set), Status::kWorkingSetTooLarge);
    ASSERT_TRUE(core_.worst_refusal);
    EXPECT_EQ(core_.worst_refusal->working_set, 4 * kGranule);
    EXPECT_EQ(core_.worst_refusal->lacking, 2 * kGranule);
  }
}

TEST_F(AdmissionTest, BuffersThatCannotBeMovedLeaveNoRoom) {
  const ManagerLock lock(core_.mutex);
  for (int i = 0; i < 2; ++i) core_.buffers[make_in()].pinned_forever = true;
  EXPECT_EQ(bring_in({make_out(1)}), Status::kWorkingSetTooLarge);
  EXPECT_TRUE(warned("cannot be moved"));
}

TEST_F(AdmissionTest, WaitsForThePinsOfAnotherOperation) {
  const ManagerLock lock(core_.mutex);
  const std::array<BufferId, 2> held{make_in(), make_in()};
  const BufferId needed = make_out(1);
  for (const BufferId id : held) core_.buffers[id].pins = 1;
  const auto moves = rounds_.round;
  rounds_.round = [&] {
    if (rounds_.rounds == 5) core_.buffers[held[0]].pins = 0;
    return moves();
  };
  EXPECT_EQ(bring_in({needed}), Status::kOk);
  EXPECT_EQ(place_of(held[0]), PieceState::kOut);
  EXPECT_EQ(place_of(held[1]), PieceState::kIn);
}

TEST_F(AdmissionTest, TellsWhyADemandFailed) {
  const ManagerLock lock(core_.mutex);
  fetches_fail_ = Status::kDeviceError;
  EXPECT_EQ(bring_in({make_out(1)}), Status::kDeviceError);
  EXPECT_EQ(fetched_.size(), 1U);  // nothing retries by itself
}

TEST_F(AdmissionTest, AFullDeviceFailsOnlyWhenNobodyCanGo) {
  const ManagerLock lock(core_.mutex);
  const std::array<BufferId, 2> victims{make_in(), make_in()};
  // The driver has no memory, whatever goes. Each try comes after the evictions that it led to.
  fetches_fail_ = Status::kOutOfDeviceMemory;
  rounds_.round = [this]() NO_THREAD_SAFETY_ANALYSIS { return evict_one() || fetch_one(); };
  EXPECT_EQ(bring_in({make_out(1)}), Status::kOutOfDeviceMemory);
  for (const BufferId id : victims) EXPECT_EQ(place_of(id), PieceState::kOut);
}

TEST_F(AdmissionTest, TakesOtherVictimsLongBeforeItGivesUpOnOneThatIsStuck) {
  const ManagerLock lock(core_.mutex);
  const BufferId stuck = make_in();
  const BufferId free = make_in();
  const BufferId needed = make_out(1);
  use(stuck, blocked_stream());
  Decision decision;
  decision.evict = {stuck};
  const auto begun = core_.now();
  EXPECT_EQ(bring_in({needed}, decision), Status::kOk);
  EXPECT_LT(core_.now() - begun, core_.options.wait_limit / 2);
  EXPECT_EQ(place_of(stuck), PieceState::kIn);
  EXPECT_EQ(place_of(free), PieceState::kOut);
  EXPECT_TRUE(core_.warnings.empty());
}

TEST_F(AdmissionTest, RunsOverTheLimitWithAWarningWhenTheWaitLimitHasPassed) {
  const ManagerLock lock(core_.mutex);
  const StreamHandle blocked = blocked_stream();
  for (int i = 0; i < 2; ++i) use(make_in(), blocked);
  const BufferId needed = make_out(1);
  const auto begun = core_.now();
  EXPECT_EQ(bring_in({needed}), Status::kOk);
  EXPECT_GE(core_.now() - begun, core_.options.wait_limit);
  EXPECT_EQ(place_of(needed), PieceState::kIn);
  EXPECT_EQ(core_.ledger.excess(), kGranule);
  EXPECT_TRUE(warned("gave up waiting after 400 ms"));
}

TEST_F(AdmissionTest, WaitsForNothingOnceTheManagerHasStopped) {
  const ManagerLock lock(core_.mutex);
  const BufferId needed = make_out(1);
  core_.waits.stopped = true;
  const std::array<BufferId, 1> set{needed};
  Turn turn(core_);
  EXPECT_EQ(admission_.bring_in({set, KernelId{7}, false, kNoSlot, &turn}, {}),
            Status::kDeviceError);
}

TEST_F(AdmissionTest, WhatAFailedOperationAskedForIsTakenBack) {
  const ManagerLock lock(core_.mutex);
  const BufferId demanded = make_out(1);
  const BufferId prefetched = make_out(1);
  Buffer& buffer = core_.buffers[demanded];
  buffer.pieces[0].want = Want::kDemand;
  buffer.pieces[0].may_exceed_limit = true;
  buffer.pieces[0].fetch_status = Status::kDeviceError;
  core_.buffers[prefetched].pieces[0].want = Want::kPrefetch;
  const std::array<BufferId, 2> set{demanded, prefetched};
  admission_.give_up({set, KernelId{7}});
  EXPECT_EQ(buffer.pieces[0].want, Want::kNobody);
  EXPECT_FALSE(buffer.pieces[0].may_exceed_limit);
  EXPECT_EQ(buffer.pieces[0].fetch_status, Status::kOk);
  EXPECT_EQ(core_.buffers[prefetched].pieces[0].want,
            Want::kPrefetch);  // policy's, not the operation's
}

TEST_F(AdmissionTest, WhatPolicyWantsEvictedStaysWhileEverythingFits) {
  const ManagerLock lock(core_.mutex);
  Decision decision;
  decision.evict = {make_in()};
  EXPECT_EQ(bring_in({make_in()}, decision), Status::kOk);
  EXPECT_TRUE(evictions_.empty());
  make_out(1);  // one more than the budget has room for
  EXPECT_EQ(bring_in({}, decision), Status::kOk);
  EXPECT_EQ(evictions_.size(), 1U);
}

TEST_F(AdmissionTest, PrefetchesAreQueuedOnceAndNotWaitedFor) {
  const ManagerLock lock(core_.mutex);
  const BufferId later = make_out(1);
  Decision decision;
  decision.fetch = {later, make_in(), later, BufferId{99}};
  EXPECT_EQ(bring_in({}, decision), Status::kOk);
  EXPECT_EQ(rounds_.rounds, 0);
  EXPECT_EQ(core_.buffers[later].pieces[0].want, Want::kPrefetch);
  core_.fetches.erase(0);
  EXPECT_TRUE(core_.fetches.empty());
}

TEST_F(AdmissionTest, WaitsForThePrefetchesOfAPolicyWithoutOverlap) {
  const ManagerLock lock(core_.mutex);
  Decision decision;
  decision.fetch = {make_out(1), make_out(1)};
  decision.fetch_before_launch = true;
  EXPECT_EQ(bring_in({}, decision), Status::kOk);
  EXPECT_EQ(fetched_, decision.fetch);
}

TEST_F(AdmissionTest, ShrinksByEvictingAndEndsItsTurn) {
  const ManagerLock lock(core_.mutex);
  make_in();
  make_in();
  EXPECT_TRUE(admission_.shrink_to(kGranule, core_.options.wait_limit));
  EXPECT_EQ(core_.ledger.pages(), kGranule);
  EXPECT_TRUE(Turn(core_).take(core_.now())) << "nobody has the turn";
}

TEST_F(AdmissionTest, CannotShrinkBelowWhatIsPinned) {
  const ManagerLock lock(core_.mutex);
  core_.buffers[make_in()].pins = 1;
  make_in();
  EXPECT_FALSE(admission_.shrink_to(Bytes{}, core_.options.wait_limit));
  EXPECT_EQ(core_.ledger.pages(), kGranule);
  EXPECT_TRUE(Turn(core_).take(core_.now())) << "nobody has the turn";
}

TEST_F(AdmissionTest, ShrinkingWaitsNoLongerThanItIsTold) {
  const ManagerLock lock(core_.mutex);
  use(make_in(), blocked_stream());
  const auto begun = core_.now();
  const std::chrono::milliseconds limit{100};
  EXPECT_FALSE(admission_.shrink_to(Bytes{}, limit));
  EXPECT_GE(core_.now() - begun, limit);
  EXPECT_LT(core_.now() - begun, core_.options.wait_limit);
}

/// The user allows launches that exceed the budget.
class OverflowTest : public AdmissionTest {
 protected:
  OverflowTest() : AdmissionTest(allowing_overflow()) {}
  static ResidencyOptions allowing_overflow() {
    ResidencyOptions options = options_of(2);
    options.overflow_allowed = true;
    return options;
  }
};

TEST_F(OverflowTest, ASetAboveTheBudgetRunsOverItAfterAllElseHasGone) {
  const ManagerLock lock(core_.mutex);
  const BufferId other = make_in();
  const std::vector<BufferId> set{make_out(1), make_out(1), make_out(1)};
  EXPECT_EQ(bring_in(set), Status::kOk);
  for (const BufferId id : set) EXPECT_EQ(place_of(id), PieceState::kIn);
  EXPECT_EQ(place_of(other), PieceState::kOut);
  EXPECT_EQ(core_.ledger.pages(), 3 * kGranule);
  EXPECT_TRUE(warned("running over the budget"));
}

/// The policy auto with a budget of three pages, all of them taken: by two buffers that nothing
/// uses and a freed one that a kernel still uses.
class FreedBufferTest : public UsingCoreTest {
 protected:
  FreedBufferTest() : UsingCoreTest(auto_options()) {
    const BufferId freed = clean(1, 3);
    const Address address = core_.buffers[freed].base;
    const StreamHandle stream = blocked_stream();
    EXPECT_EQ(launch(freed, stream), Status::kOk);
    EXPECT_EQ(lifetimes_.free(address, stream), Status::kOk);
  }
  static ResidencyOptions auto_options() {
    ResidencyOptions options = options_of(3);
    options.policy.kind = PolicyKind::kAuto;
    return options;
  }

  Status launch(BufferId id, StreamHandle stream) {
    const std::array<std::uint64_t, 1> words{core_.buffers[id].base};
    UseToken token;
    const Status status = uses_.begin_launch(KernelId{7}, words, stream, token);
    if (status == Status::kOk) uses_.end_use(token, stream, true);
    return status;
  }
  [[nodiscard]] int idle_in() const {
    return static_cast<int>(std::ranges::count_if(idle_, [this](BufferId id) {
      return core_.buffers[id].pieces[0].state() == PieceState::kIn;
    }));
  }

  BufferLifetimes lifetimes_{core_,      streams_,  pages_,   mover_,
                             evictions_, left_out_, digests_, precleaner_};
  const std::array<BufferId, 2> idle_{clean(1, 1), clean(1, 2)};
};

TEST_F(FreedBufferTest, HoldsUpNoContentThatCanComeForWhatIsIdle) {
  const BufferId needed = out(1, 4);
  const auto begun = core_.now();
  EXPECT_EQ(launch(needed, device_.program_stream()), Status::kOk);
  EXPECT_LT(core_.now() - begun, core_.options.wait_limit / 8) << "before patience is lost";
  EXPECT_EQ(idle_in(), 1);
  EXPECT_EQ(device_value(needed), 4);
  unblock();
}

// The kernel that names it first is behind the work that uses the freed one in any case.
TEST_F(FreedBufferTest, IsWaitedForByWhatHasNoContent) {
  out(1, 9);  // so that not everything fits
  core_.let_freed_lately_go();
  const BufferId needed = fresh(1);
  in_round(5, [this] { unblock(); });
  EXPECT_EQ(launch(needed, device_.program_stream()), Status::kOk);
  EXPECT_EQ(idle_in(), 2);
}

TEST_F(FreedBufferTest, IsTakenThoughFreedLatelyWhereNobodyElseCanGo) {
  for (const BufferId id : idle_) core_.buffers[id].pinned_forever = true;
  out(1, 9);  // so that not everything fits
  const BufferId needed = out(1, 4);
  EXPECT_EQ(core_.obtainable_ahead(), Bytes{}) << "it is spared";
  in_round(5, [this] { unblock(); });
  const auto begun = core_.now();
  EXPECT_EQ(launch(needed, device_.program_stream()), Status::kOk);
  EXPECT_LT(core_.now() - begun, core_.options.wait_limit / 8) << "before patience is lost";
  EXPECT_EQ(idle_in(), 2);
  EXPECT_EQ(device_value(needed), 4);
}

TEST_F(FreedBufferTest, StaysForTheNextAllocationWhereItWasFreedLately) {
  out(1, 9);  // so that not everything fits
  const BufferId needed = fresh(1);
  EXPECT_EQ(launch(needed, device_.program_stream()), Status::kOk);
  EXPECT_EQ(idle_in(), 1) << "something else went";
  EXPECT_GT(core_.cache.bytes(), Bytes{});
  unblock();
}

TEST_F(FreedBufferTest, HidesNoneOfItsSizeThatWasFreedLaterAndUsedEarlier) {
  unblock();
  core_.seq += 96;  // what was used before is no longer of the last uses
  const StreamHandle stream = device_.program_stream();
  EXPECT_EQ(launch(idle_[1], stream), Status::kOk);
  EXPECT_EQ(lifetimes_.free(core_.buffers[idle_[1]].base, stream), Status::kOk);
  EXPECT_EQ(lifetimes_.free(core_.buffers[idle_[0]].base, stream), Status::kOk);
  for (int value = 4; value < 8; ++value) out(1, value);  // so that not everything fits
  const ManagerLock lock(core_.mutex);
  EXPECT_TRUE(pages_.reclaim_one());  // the one of the kernel that was blocked
  const Bytes size = core_.granule;
  const auto idle = pages_.acquire(size, PageSupply::Terms::kAhead);
  const auto unspared = pages_.acquire(size, PageSupply::Terms::kAhead);
  EXPECT_TRUE(idle.ok());
  EXPECT_TRUE(unspared.ok());
  EXPECT_EQ(pages_.acquire(size, PageSupply::Terms::kAhead).status(), Status::kNotYet);
  EXPECT_TRUE(core_.is_freed_lately(core_.buffers[idle_[1]]));
  if (idle.ok()) core_.pool->put(Page(*idle));
  if (unspared.ok()) core_.pool->put(Page(*unspared));
}

TEST_F(FreedBufferTest, GivesItsPagesWhereEverythingFitsThoughItWasFreedLately) {
  const BufferId needed = fresh(1);
  in_round(5, [this] { unblock(); });
  EXPECT_EQ(launch(needed, device_.program_stream()), Status::kOk);
  EXPECT_EQ(idle_in(), 2) << "nothing leaves that fits (I6)";
}

}  // namespace
}  // namespace superpipe::testing
