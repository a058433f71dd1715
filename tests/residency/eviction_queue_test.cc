// Evictions that wait for their buffers' last uses: when one may go, and what makes it void.
#include "residency/room/eviction_queue.h"

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <optional>
#include <vector>

#include "residency/transfer/stream_marker.h"
#include "tests/residency/core_fixture.h"

namespace superpipe::testing {
namespace {

class EvictionQueueTest : public CoreTest {
 protected:
  using CoreTest::CoreTest;

  Bytes request(BufferId id) REQUIRES(manager_lock) {
    const std::array<BufferId, 1> victims{id};
    return evictions_.request(victims);
  }
  /// Nothing is queued, and no page is promised.
  void expect_nothing_left() REQUIRES(manager_lock) {
    EXPECT_TRUE(evictions_.empty());
    EXPECT_FALSE(core_.ledger.expects_pages());
  }

  StreamMarker streams_{core_};
  PageSupply pages_{core_};
  PageMover page_mover_{core_.device, core_.events, core_.transfers, core_.digester};
  ContentMover mover_{core_, streams_, pages_, page_mover_};
  UseCompletion completion_{core_, streams_};
  EvictionQueue evictions_{core_, streams_, mover_, completion_};
};

TEST_F(EvictionQueueTest, WaitsForTheLastUseAndPromisesThePageMeanwhile) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_dirty(2);
  use(id, blocked_stream());
  EXPECT_EQ(request(id), 2 * kGranule);
  EXPECT_TRUE(core_.ledger.expects_pages());
  EXPECT_FALSE(core_.pool->expects(2 * kGranule)) << "nobody knows when its use ends";
  device_.drain();
  EXPECT_EQ(evictions_.take_next(), std::nullopt);
  EXPECT_EQ(evictions_.size(), 1U);
  unblock();
  EXPECT_EQ(evictions_.take_next(), (PieceId{id, 0}));
  EXPECT_EQ(core_.buffers[id].pieces[0].evict_ticket, 0U);
  expect_nothing_left();
}

TEST_F(EvictionQueueTest, WaitsForEachStreamThatUsedTheBuffer) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_dirty(1);
  use(id, blocked_stream());
  use(id, device_.program_stream());
  EXPECT_EQ(request(id), kGranule);
  device_.drain();
  EXPECT_EQ(evictions_.take_next(), std::nullopt);
  unblock();
  EXPECT_EQ(evictions_.take_next(), (PieceId{id, 0}));
}

TEST_F(EvictionQueueTest, DoesNotWaitForWorkThatIsSubmittedLater) {
  const ManagerLock lock(core_.mutex);
  const StreamHandle stream = device_.program_stream();
  const BufferId id = make_dirty(1);
  use(id, stream);
  EXPECT_EQ(request(id), kGranule);
  device_.submit_blocking_host_function(stream);
  device_.drain();
  EXPECT_EQ(evictions_.take_next(), (PieceId{id, 0}));
}

TEST_F(EvictionQueueTest, ABufferThatWasNeverUsedCanGoAtOnce) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_clean(1);
  EXPECT_EQ(request(id), kGranule);
  EXPECT_EQ(evictions_.take_next(), (PieceId{id, 0}));
}

TEST_F(EvictionQueueTest, ContentHasToArriveBeforeItCanGo) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_clean(1);
  core_.buffers[id].set_ready(0, blocked_event());
  EXPECT_EQ(request(id), kGranule);
  EXPECT_EQ(evictions_.take_next(), std::nullopt);
  unblock();
  EXPECT_EQ(evictions_.take_next(), (PieceId{id, 0}));
}

TEST_F(EvictionQueueTest, AVictimThatIsBusyHoldsUpNoOther) {
  const ManagerLock lock(core_.mutex);
  const std::array<BufferId, 2> victims{make_dirty(1), make_dirty(1)};
  use(victims[0], blocked_stream());
  EXPECT_EQ(evictions_.request(victims), 2 * kGranule);
  EXPECT_EQ(evictions_.take_next(), (PieceId{victims[1], 0}));
  EXPECT_EQ(evictions_.size(), 1U);
}

TEST_F(EvictionQueueTest, AUseAfterTheRequestMakesItVoid) {
  const ManagerLock lock(core_.mutex);
  const StreamHandle stream = device_.program_stream();
  const BufferId id = make_dirty(1);
  use(id, stream);
  EXPECT_EQ(request(id), kGranule);
  use(id, stream);
  device_.drain();
  EXPECT_EQ(evictions_.take_next(), std::nullopt);
  expect_nothing_left();
}

TEST_F(EvictionQueueTest, ARevokedBufferStaysAndCanBeRequestedAgain) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_clean(1);
  EXPECT_EQ(request(id), kGranule);
  EXPECT_TRUE(core_.pool->expects(kGranule));
  evictions_.revoke(id);
  EXPECT_FALSE(core_.ledger.expects_pages());
  EXPECT_FALSE(core_.pool->expects(kGranule));
  EXPECT_EQ(evictions_.take_next(), std::nullopt);
  expect_nothing_left();
  EXPECT_EQ(request(id), kGranule);
  EXPECT_EQ(evictions_.take_next(), (PieceId{id, 0}));
}

TEST_F(EvictionQueueTest, APageDoesNotComeBackSoonWhoseBufferLacksASlab) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_dirty(1);
  EXPECT_EQ(request(id), kGranule);
  EXPECT_FALSE(core_.pool->expects(kGranule));
}

TEST_F(EvictionQueueTest, AVoidEvictionDoesNotSpendTheTicketOfALaterOne) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_dirty(1);
  EXPECT_EQ(request(id), kGranule);
  evictions_.revoke(id);
  use(id, blocked_stream());
  EXPECT_EQ(request(id), kGranule);
  EXPECT_EQ(evictions_.take_next(), std::nullopt);
  EXPECT_EQ(evictions_.size(), 1U);
  EXPECT_TRUE(core_.ledger.expects_pages());
  unblock();
  EXPECT_EQ(evictions_.take_next(), (PieceId{id, 0}));
}

TEST_F(EvictionQueueTest, AnIdThatNamesAnotherBufferNowIsLeftAlone) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_dirty(1);
  EXPECT_EQ(request(id), kGranule);
  Buffer& buffer = core_.buffers[id];
  evictions_.revoke(id);  // as a free does
  ++buffer.generation;
  EXPECT_EQ(evictions_.take_next(), std::nullopt);
  EXPECT_TRUE(evictions_.empty());
}

TEST_F(EvictionQueueTest, IsNotQueuedTwice) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_dirty(1);
  EXPECT_EQ(request(id), kGranule);
  EXPECT_EQ(request(id), Bytes{});
  EXPECT_EQ(evictions_.take_next(), (PieceId{id, 0}));
  EXPECT_EQ(evictions_.take_next(), std::nullopt);
  expect_nothing_left();
}

TEST_F(EvictionQueueTest, WhatIsHeldOrMovingMayNotGo) {
  const ManagerLock lock(core_.mutex);
  const auto of = [this](BufferId id) -> Buffer& { return core_.buffers[id]; };
  const std::vector<std::function<void(BufferId)>> obstacles{
      [&](BufferId id) { of(id).pins = 1; },
      [&](BufferId id) { of(id).host.pins = 1; },
      [&](BufferId id) { of(id).pinned_forever = true; },
      [&](BufferId id) { of(id).pieces[0].page_is_untracked = true; },
      [&](BufferId id) { of(id).live = false; },
      [&](BufferId id) NO_THREAD_SAFETY_ANALYSIS {
        core_.pool->put(core_.pieces.leave({id, 0}));
      },
      [&](BufferId id) NO_THREAD_SAFETY_ANALYSIS {
        core_.pieces.enter({id, 0}, PieceState::kCopyStarting);
      },
      [&](BufferId id) NO_THREAD_SAFETY_ANALYSIS { of(id).pieces[0].evict_failed = core_.turns; },
  };
  for (std::size_t i = 0; i < obstacles.size(); ++i) {
    const BufferId id = make_dirty(1);
    EXPECT_TRUE(evictions_.has_victim(core_.buffers[id], Bytes{}));
    obstacles[i](id);
    EXPECT_EQ(request(id), Bytes{}) << "obstacle " << i;
  }
  expect_nothing_left();
}

TEST_F(EvictionQueueTest, APinTakenAfterTheRequestMakesItVoid) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_dirty(1);
  EXPECT_EQ(request(id), kGranule);
  core_.buffers[id].pins = 1;
  EXPECT_EQ(evictions_.take_next(), std::nullopt);
  expect_nothing_left();
}

TEST_F(EvictionQueueTest, IsGivenUpAtTheWaitLimit) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_dirty(1);
  use(id, blocked_stream());
  EXPECT_EQ(request(id), kGranule);
  pass(core_.options.wait_limit / 2);
  EXPECT_EQ(evictions_.take_next(), std::nullopt);
  EXPECT_EQ(evictions_.size(), 1U);
  pass(core_.options.wait_limit);
  EXPECT_EQ(evictions_.take_next(), std::nullopt);
  expect_nothing_left();
  EXPECT_EQ(core_.buffers[id].pieces[0].evict_ticket, 0U);
}

// Its write-back would have to come behind that, and other write-backs behind it.
TEST_F(EvictionQueueTest, ContentWaitsForWhatTheProgramDoesWithTheHostCopy) {
  const ManagerLock lock(core_.mutex);
  const BufferId dirty = make_clean(1);
  const BufferId clean = make_clean(1);
  const BufferId fresh = make_dirty(1);
  core_.buffers[dirty].note_write();
  core_.buffers[fresh].fresh = true;
  for (const BufferId id : {dirty, clean, fresh}) {
    core_.buffers[id].host.operations.push_back(
        {kNoSlot, StreamHandle{}, false, blocked_event(), ++core_.seq});
  }
  EXPECT_EQ(evictions_.request(std::array{dirty, clean, fresh}), 3 * kGranule);
  EXPECT_EQ(evictions_.take_next(), (PieceId{fresh, 0}));
  EXPECT_EQ(evictions_.take_next(), std::nullopt);
  unblock();
  EXPECT_EQ(evictions_.take_next(), (PieceId{dirty, 0}));
  EXPECT_EQ(evictions_.take_next(), (PieceId{clean, 0}));
}

// A copy out of it got it a slab. Without digests, and with what the slab has, it is written back.
TEST_F(EvictionQueueTest, AFreshPieceWithASlabWaitsForWhatTheProgramDoesWithThat) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_clean(1);
  core_.buffers[id].fresh = true;
  core_.buffers[id].host.operations.push_back(
      {kNoSlot, StreamHandle{}, false, blocked_event(), ++core_.seq});
  EXPECT_EQ(evictions_.request(std::array{id}), kGranule);
  EXPECT_EQ(evictions_.take_next(), std::nullopt);
  unblock();
  EXPECT_EQ(evictions_.take_next(), (PieceId{id, 0}));
}

// Others of that size would go on waiting for it.
TEST_F(EvictionQueueTest, APageDoesNotComeBackSoonWhoseWriteBackHasToWait) {
  const ManagerLock lock(core_.mutex);
  const BufferId worked_on = make_clean(1);
  core_.buffers[worked_on].note_write();
  core_.buffers[worked_on].host.operations.push_back(
      {kNoSlot, StreamHandle{}, false, blocked_event(), ++core_.seq});
  const BufferId mapping = make_dirty(2);
  core_.buffers[mapping].fresh = true;
  core_.buffers[mapping].host.is_mapping = true;  // another thread is getting its slab
  EXPECT_EQ(evictions_.request(std::array{worked_on, mapping}), 3 * kGranule);
  for (const Bytes size : {kGranule, 2 * kGranule}) EXPECT_TRUE(core_.pool->expects(size));
  EXPECT_EQ(evictions_.take_next(), std::nullopt);
  EXPECT_FALSE(core_.pool->expects(kGranule));
  EXPECT_FALSE(core_.pool->expects(2 * kGranule));
  core_.buffers[mapping].host.is_mapping = false;
  unblock();
  EXPECT_EQ(evictions_.take_next(), (PieceId{worked_on, 0}));
  EXPECT_EQ(evictions_.take_next(), (PieceId{mapping, 0}));
}

/// Host memory for two pages, both of them in a slab that was given back and is in use.
class ShortOfSlabsTest : public EvictionQueueTest {
 protected:
  static ResidencyOptions short_options() {
    ResidencyOptions options = options_of(1024);
    options.host_limit = 2 * kGranule;
    options.compares_digests = true;  // so that a fresh piece may need none
    return options;
  }
  ShortOfSlabsTest() : EvictionQueueTest(short_options()) {
    const auto slab = core_.host.acquire(2 * kGranule, false);
    EXPECT_TRUE(slab.ok());
    if (slab.ok()) core_.host.release(*slab, {blocked_event()});
  }
};

TEST_F(ShortOfSlabsTest, WaitsForNothingButStaysQueuedUntilASlabCanBeHad) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_dirty(1);
  EXPECT_EQ(request(id), kGranule);
  ++core_.waits.waiters;
  const std::uint64_t changes = core_.waits.changes;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(evictions_.take_next(), std::nullopt);
  EXPECT_EQ(core_.waits.changes, changes) << "no thread is woken for nothing";
  --core_.waits.waiters;
  EXPECT_EQ(evictions_.size(), 1U);
  EXPECT_TRUE(core_.ledger.expects_pages());
  EXPECT_EQ(device_.calls(Call::kWait), 0);
  EXPECT_FALSE(core_.buffers[id].host.is_busy());
  unblock();
  EXPECT_EQ(evictions_.take_next(), (PieceId{id, 0}));
  EXPECT_TRUE(core_.buffers[id].host.slab);
  EXPECT_EQ(core_.counters.errors, 0U);
  expect_nothing_left();
}

TEST_F(ShortOfSlabsTest, HoldsUpNobodyWhoNeedsNoSlab) {
  const ManagerLock lock(core_.mutex);
  const BufferId lacking = make_dirty(1);
  const BufferId fresh = make_dirty(1);
  core_.buffers[fresh].fresh = true;
  EXPECT_EQ(evictions_.request(std::array{lacking, fresh}), 2 * kGranule);
  EXPECT_EQ(evictions_.take_next(), (PieceId{fresh, 0}));
  EXPECT_EQ(evictions_.size(), 1U);
}

TEST_F(ShortOfSlabsTest, IsGivenUpAtTheWaitLimit) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_dirty(1);
  EXPECT_EQ(request(id), kGranule);
  EXPECT_EQ(evictions_.take_next(), std::nullopt);
  pass(2 * core_.options.wait_limit);
  EXPECT_EQ(evictions_.take_next(), std::nullopt);
  expect_nothing_left();
}

TEST_F(ShortOfSlabsTest, AUseWhileASlabIsBeingPinnedMakesItVoid) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_dirty(1);
  EXPECT_EQ(request(id), kGranule);
  unblock();
  device_.on_call = [this, id](Call call) {
    if (call != Call::kPin) return;
    const ManagerLock other(core_.mutex);
    evictions_.revoke(id);
  };
  EXPECT_EQ(evictions_.take_next(), std::nullopt);
  device_.on_call = nullptr;
  expect_nothing_left();
  EXPECT_EQ(core_.buffers[id].pieces[0].state(), PieceState::kIn);
}

TEST_F(EvictionQueueTest, AFailedQueryDropsItForThisTurn) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_dirty(1);
  use(id, blocked_stream());
  EXPECT_EQ(request(id), kGranule);
  device_.fail(Call::kIsComplete, 1, Status::kDeviceError);
  EXPECT_EQ(evictions_.take_next(), std::nullopt);
  expect_nothing_left();
  EXPECT_EQ(core_.counters.errors, 1U);
  EXPECT_FALSE(evictions_.has_victim(core_.buffers[id], Bytes{}));
  ++core_.turns;
  EXPECT_TRUE(evictions_.has_victim(core_.buffers[id], Bytes{}));
}

TEST_F(EvictionQueueTest, AUseThatCannotBeMarkedKeepsTheBufferForThisTurn) {
  const ManagerLock lock(core_.mutex);
  const StreamHandle capturing = device_.program_stream();
  device_.set_capturing(capturing, true);
  const BufferId captured = make_dirty(1);
  use(captured, capturing);
  const BufferId of_thread = make_dirty(1);
  use(of_thread, kPerThreadStream);  // without an event: no other thread can mark it
  for (const BufferId id : {captured, of_thread}) {
    EXPECT_EQ(request(id), Bytes{});
    EXPECT_EQ(core_.buffers[id].pieces[0].evict_failed, core_.turns);
  }
  expect_nothing_left();
}

TEST_F(EvictionQueueTest, ABufferOfAStreamThatIsBeingDestroyedIsAskedForAgain) {
  const ManagerLock lock(core_.mutex);
  const StreamHandle stream = device_.program_stream();
  const BufferId id = make_dirty(1);
  use(id, stream);
  const Slot slot = core_.streams.slot_of(stream);
  core_.streams.entry(slot).visitors = 1;  // its destroyer, about to record the last event
  core_.streams.retire(slot);
  EXPECT_EQ(request(id), Bytes{});
  EXPECT_TRUE(evictions_.has_victim(core_.buffers[id], Bytes{}));
}

TEST_F(EvictionQueueTest, PolicyChoosesVictimsThatFreeEnoughAndLeavesTheRest) {
  const ManagerLock lock(core_.mutex);
  const std::array<BufferId, 4> ids{make_dirty(1), make_dirty(1), make_dirty(1), make_dirty(1)};
  core_.buffers[ids[0]].pins = 1;
  EXPECT_EQ(evictions_.request_bytes(2 * kGranule, Bytes{}), 2 * kGranule);
  EXPECT_EQ(core_.buffers[ids[0]].pieces[0].evict_ticket, 0U);
  EXPECT_EQ(evictions_.size(), 2U);
  // The others are all that is left, though less than what is asked for.
  EXPECT_EQ(evictions_.request_bytes(2 * kGranule, Bytes{}), kGranule);
  EXPECT_EQ(evictions_.request_bytes(kGranule, Bytes{}), Bytes{});
}

TEST_F(EvictionQueueTest, ARequestIgnoresIdsThatDoNotExist) {
  const ManagerLock lock(core_.mutex);
  make_dirty(1);
  EXPECT_EQ(request(BufferId{99}), Bytes{});
}

class ResidentEvictionQueueTest : public EvictionQueueTest {
 protected:
  static ResidencyOptions resident_options() {
    ResidencyOptions options = options_of(1024);
    options.policy.kind = PolicyKind::kResident;
    return options;
  }
  ResidentEvictionQueueTest() : EvictionQueueTest(resident_options()) {}
};

TEST_F(ResidentEvictionQueueTest, NobodyGoes) {
  const ManagerLock lock(core_.mutex);
  make_clean(1);
  EXPECT_EQ(evictions_.request_bytes(kGranule, kGranule), Bytes{});
  EXPECT_TRUE(evictions_.empty());
}

}  // namespace
}  // namespace superpipe::testing
