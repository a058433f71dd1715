// One fetch: in which order the device is asked, and where the content is when a
// call of it fails.
#include "residency/transfer/content_mover.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <utility>
#include <vector>

#include "tests/residency/core_fixture.h"

namespace superpipe::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr bool kReads = false;
constexpr bool kWrites = true;

class ContentMoverTest : public MovingCoreTest {
 protected:
  using MovingCoreTest::MovingCoreTest;

  /// Tries to fetch a buffer for a launch that waits for it.
  bool demand(BufferId id) REQUIRES(manager_lock) {
    core_.buffers[id].pieces[0].want = Want::kDemand;
    return mover_.fetch({id, 0}, true) == ContentMover::Fetched::kSettled;
  }
  /// Tries to fetch a buffer that policy wants.
  bool prefetch(BufferId id) REQUIRES(manager_lock) {
    core_.buffers[id].pieces[0].want = Want::kPrefetch;
    return mover_.fetch({id, 0}, false) == ContentMover::Fetched::kSettled;
  }
  /// The program's operation on the host copy of a buffer, which ends with `done`.
  void note(BufferId id, bool writes, EventRef done) REQUIRES(manager_lock) {
    core_.buffers[id].host.operations.push_back(
        {kNoSlot, StreamHandle{}, writes, std::move(done), ++core_.seq});
  }
  void set_limit(std::uint64_t pages) REQUIRES(manager_lock) {
    core_.ledger.set_limit(Bytes{pages * kGranule.count()}, true);
  }
  /// The idle page of one granule that the next fetch would get.
  Page take_idle_page() REQUIRES(manager_lock) {
    auto page = core_.pool->take(kGranule);
    EXPECT_TRUE(page.has_value());
    return page ? std::move(*page) : Page{};
  }
};

TEST_F(ContentMoverTest, AFetchBringsTheContentAndKeepsTheHostCopy) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_out(2, 7);
  EXPECT_TRUE(demand(id));
  const Buffer& buffer = core_.buffers[id];
  EXPECT_EQ(buffer.pieces[0].state(), PieceState::kIn);
  EXPECT_EQ(buffer.pieces[0].want, Want::kNobody);
  EXPECT_FALSE(buffer.is_dirty(0));
  device_.drain();
  EXPECT_TRUE(is_complete(buffer.pieces[0].ready));
  EXPECT_EQ(device_value(id), 7);
  EXPECT_EQ(host_value(id), 7);
  EXPECT_EQ(core_.counters.demand_fetches, 1U);
  EXPECT_EQ(core_.counters.h2d_bytes, 2 * kGranule);
}

TEST_F(ContentMoverTest, AFetchWaitsForTheWriteBackOfWhoHadItsPage) {
  const ManagerLock lock(core_.mutex);
  make_idle_page(1, blocked_event());
  const BufferId id = make_out(1, 7);
  ASSERT_TRUE(demand(id));
  device_.drain();
  EXPECT_FALSE(is_complete(core_.buffers[id].pieces[0].ready));
  EXPECT_NE(device_value(id), 7) << "the page's former content is overwritten";
  unblock();
  EXPECT_EQ(device_value(id), 7);
}

TEST_F(ContentMoverTest, AFetchWaitsForTheWriteBackOfItsOwnContent) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_out(1, 7);
  const StreamHandle stream = blocked_stream();
  submit_host_write(stream, id, 9);
  core_.buffers[id].pieces[0].write_back = end_of(stream);
  ASSERT_TRUE(demand(id));
  device_.drain();
  unblock();
  EXPECT_EQ(device_value(id), 9);
}

TEST_F(ContentMoverTest, AFetchWaitsForWritesOfTheProgramToTheHostCopyAndNotForReads) {
  const ManagerLock lock(core_.mutex);
  const BufferId written = make_out(1, 7);
  const BufferId read = make_out(1, 7);
  const StreamHandle stream = blocked_stream();
  submit_host_write(stream, written, 9);
  note(written, kWrites, end_of(stream));
  note(read, kReads, end_of(stream));
  ASSERT_TRUE(demand(read));
  ASSERT_TRUE(demand(written));
  device_.drain();
  EXPECT_EQ(device_value(read), 7);
  EXPECT_THAT(core_.buffers[read].host.operations, SizeIs(1)) << "a write-back has to wait for it";
  EXPECT_NE(device_value(written), 7);
  unblock();
  EXPECT_EQ(device_value(written), 9);
  EXPECT_THAT(core_.buffers[written].host.operations, IsEmpty());
}

TEST_F(ContentMoverTest, ABufferThatWasNeverWrittenIsMappedWithoutACopy) {
  const ManagerLock lock(core_.mutex);
  const EventRef vacated = blocked_event();
  make_idle_page(1, vacated);
  const BufferId id = make_fresh(1);
  EXPECT_TRUE(demand(id));
  EXPECT_EQ(core_.buffers[id].pieces[0].state(), PieceState::kIn);
  EXPECT_EQ(core_.buffers[id].pieces[0].ready, vacated);
  EXPECT_EQ(device_.calls(Call::kCopyToDevice), 0);
  EXPECT_EQ(core_.counters.demand_fetches, 0U);
}

TEST_F(ContentMoverTest, WithoutAPageADemandStaysAndAPrefetchIsDroppedUnlessOneIsComing) {
  const ManagerLock lock(core_.mutex);
  make_dirty(1);
  set_limit(1);
  const BufferId id = make_out(1);
  const Buffer& buffer = core_.buffers[id];
  EXPECT_FALSE(demand(id));
  EXPECT_EQ(buffer.pieces[0].want, Want::kDemand);
  EXPECT_TRUE(prefetch(id));
  EXPECT_EQ(buffer.pieces[0].want, Want::kNobody);
  core_.ledger.promise(kGranule);
  EXPECT_FALSE(prefetch(id));
  EXPECT_EQ(buffer.pieces[0].want, Want::kPrefetch);
  EXPECT_EQ(buffer.pieces[0].state(), PieceState::kOut);
  EXPECT_EQ(core_.counters.errors, 0U);
}

TEST_F(ContentMoverTest, APrefetchThatALaunchCameToWaitForCountsAsADemand) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_out(1);
  const BufferId other = make_out(1);
  device_.on_call = [&](Call call) {
    if (call == Call::kCopyToDevice) core_.buffers[id].pieces[0].want = Want::kDemand;
  };
  EXPECT_TRUE(prefetch(id));
  device_.on_call = nullptr;
  EXPECT_TRUE(prefetch(other));
  EXPECT_EQ(core_.counters.demand_fetches, 1U);
  EXPECT_EQ(core_.counters.prefetches, 1U);
}

TEST_F(ContentMoverTest, OthersSeeThatTheBufferMovesWhileTheDeviceIsCalled) {
  std::vector<PieceState> seen;
  BufferId id{};
  {
    const ManagerLock lock(core_.mutex);
    id = make_out(1);
  }
  device_.on_call = [&](Call call) {
    if (call != Call::kCopyToDevice && call != Call::kUnmap) return;
    const ManagerLock lock(core_.mutex);  // not held across the call (I5), or this would hang
    seen.push_back(core_.buffers[id].pieces[0].state());
  };
  const ManagerLock lock(core_.mutex);
  EXPECT_TRUE(demand(id));
  evictor_.evict({id, 0});
  device_.on_call = nullptr;
  EXPECT_THAT(seen, ElementsAre(PieceState::kFetching, PieceState::kLeaving));
}

TEST_F(ContentMoverTest, AFetchThatFailsLeavesTheContentInTheHostCopy) {
  const ManagerLock lock(core_.mutex);
  for (const Call call : {Call::kCreatePages, Call::kCopyToDevice, Call::kMap}) {
    const BufferId id = make_out(1, 7);
    Buffer& buffer = core_.buffers[id];
    const std::uint64_t errors = core_.counters.errors;
    // The first map of a new page is that of its window.
    device_.fail(call, call == Call::kMap && core_.pool->empty() ? 2 : 1, Status::kDeviceError);
    EXPECT_TRUE(demand(id)) << name_of(call);
    EXPECT_EQ(buffer.pieces[0].fetch_status, Status::kDeviceError) << name_of(call);
    EXPECT_EQ(buffer.pieces[0].state(), PieceState::kOut) << name_of(call);
    EXPECT_FALSE(buffer.pieces[0].has_page()) << name_of(call);
    EXPECT_EQ(core_.counters.errors, errors + 1) << name_of(call);
    EXPECT_TRUE(demand(id)) << name_of(call);
    device_.drain();
    EXPECT_EQ(device_value(id), 7) << name_of(call);
  }
}

TEST_F(ContentMoverTest, AFailedPrefetchIsNotToldToWhoNamesTheBufferNext) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_out(1);
  device_.fail(Call::kCopyToDevice, 1, Status::kDeviceError);
  EXPECT_TRUE(prefetch(id));
  EXPECT_EQ(core_.buffers[id].pieces[0].fetch_status, Status::kOk);
  EXPECT_EQ(core_.buffers[id].pieces[0].want, Want::kNobody);
}

TEST_F(ContentMoverTest, WhatAFailedFetchMayStillTouchIsWaitedFor) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_out(1);
  device_.fail(Call::kMap, 2, Status::kDeviceError);  // after that of the page's window
  EXPECT_TRUE(demand(id));
  const auto& operations = core_.buffers[id].host.operations;
  ASSERT_THAT(operations, SizeIs(1));
  EXPECT_FALSE(operations[0].writes);
  EXPECT_THAT(take_idle_page().after, ElementsAre(operations[0].done));
}

TEST_F(ContentMoverTest, APageAndASlabUnderATransferWithoutAKnownEndServeNobody) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_out(1);
  device_.fail(Call::kRecord, 1, Status::kDeviceError);
  EXPECT_TRUE(demand(id));
  EXPECT_EQ(core_.buffers[id].pieces[0].state(), PieceState::kOut);
  EXPECT_TRUE(core_.buffers[id].host.is_untracked);
  EXPECT_TRUE(core_.pool->empty());
  EXPECT_TRUE(core_.pool->take_untracked().has_value());
  EXPECT_EQ(core_.ledger.pages(), kGranule);
}

TEST_F(ContentMoverTest, ADemandBehindAWriteOfTheProgramHoldsUpNoOther) {
  const ManagerLock lock(core_.mutex);
  const BufferId written = make_out(1, 7);
  const BufferId other = make_out(1, 8);
  note(written, kWrites, blocked_event());
  ASSERT_TRUE(demand(written));
  ASSERT_TRUE(demand(other));
  device_.drain();
  EXPECT_TRUE(is_complete(core_.buffers[other].pieces[0].ready));
  EXPECT_EQ(device_value(other), 8);
  EXPECT_FALSE(is_complete(core_.buffers[written].pieces[0].ready));
  unblock();
  EXPECT_EQ(device_value(written), 7);
}

TEST_F(ContentMoverTest, APrefetchBehindAWriteOfTheProgramIsDropped) {
  const ManagerLock lock(core_.mutex);
  const BufferId written = make_out(1, 7);
  const BufferId read = make_out(1, 8);
  note(written, kWrites, blocked_event());
  note(read, kReads, blocked_event());
  EXPECT_TRUE(prefetch(written));
  EXPECT_EQ(core_.buffers[written].pieces[0].state(), PieceState::kOut);
  EXPECT_EQ(core_.buffers[written].pieces[0].want, Want::kNobody);
  EXPECT_EQ(core_.counters.errors, 0U);
  EXPECT_TRUE(prefetch(read));
  EXPECT_EQ(core_.buffers[read].pieces[0].state(), PieceState::kIn)
      << "to read beside it is no harm";
  unblock();
  EXPECT_TRUE(prefetch(written));
  device_.drain();
  EXPECT_EQ(device_value(written), 7);
}

TEST_F(ContentMoverTest, SoManyDemandsWaitForTheProgramAtATimeAndOthersGoOn) {
  const ManagerLock lock(core_.mutex);
  std::vector<BufferId> written;
  for (std::size_t i = 0; i <= TransferEngine::kMostApart; ++i) {
    written.push_back(make_out(1, 7));
    note(written.back(), kWrites, blocked_event());
    core_.want({written.back(), 0}, Want::kDemand);
  }
  const BufferId other = make_out(1, 8);
  core_.want({other, 0}, Want::kDemand);
  run_rounds();
  EXPECT_EQ(device_value(other), 8);
  EXPECT_EQ(core_.buffers[written.back()].pieces[0].state(), PieceState::kOut);
  EXPECT_EQ(core_.buffers[written.back()].pieces[0].want, Want::kDemand);
  EXPECT_TRUE(mover_rounds_.is_pending());
  unblock();
  run_rounds();
  EXPECT_EQ(device_value(written.back()), 7);
}

// The worker tries each demand in each round: whoever waits for one would wake as often.
TEST_F(ContentMoverTest, ADemandThatHasToWaitForTheProgramAnnouncesNoChange) {
  const ManagerLock lock(core_.mutex);
  std::vector<BufferId> written;
  for (std::size_t i = 0; i <= TransferEngine::kMostApart; ++i) {
    written.push_back(make_out(1, 7));
    note(written.back(), kWrites, blocked_event());
    EXPECT_EQ(demand(written.back()), i < TransferEngine::kMostApart);
  }
  std::uint64_t changes = core_.waits.changes;
  EXPECT_FALSE(demand(written.back()));
  EXPECT_EQ(core_.waits.changes, changes);
  EXPECT_TRUE(prefetch(written.back()));
  EXPECT_GT(core_.waits.changes, changes)
      << "it was dropped: a launch may wait for what was wanted";
  unblock();
}

TEST_F(ContentMoverTest, ABufferGetsOneZeroedSlabOfItsBacking) {
  const ManagerLock lock(core_.mutex);
  const auto used = core_.host.acquire(kGranule, false);
  ASSERT_TRUE(used.ok());
  std::memset(used->data, 7, kGranule.count());
  core_.host.release(*used, {});
  const BufferId id = make_fresh(1);
  Buffer& buffer = core_.buffers[id];
  EXPECT_EQ(mover_.ensure_slab(buffer, true), Status::kOk);
  EXPECT_EQ(buffer.host.slab.data, used->data);
  EXPECT_EQ(host_value(id), 0);
  EXPECT_EQ(mover_.ensure_slab(buffer, true), Status::kOk);
  EXPECT_EQ(core_.host.pinned(), kGranule);
}

/// Fetches whose pieces are mapped when their content is there.
class ArrivalsTest : public ContentMoverTest {
 protected:
  static ResidencyOptions options() {
    ResidencyOptions options = options_of(1024);
    options.maps_early = false;
    return options;
  }
  ArrivalsTest() : ContentMoverTest(options()) {}

  [[nodiscard]] PieceState place_of(BufferId id) const REQUIRES(manager_lock) {
    return core_.buffers[id].pieces[0].state();
  }
  /// An end on a stream of ours that does not come before unblock().
  EventRef own_blocked_event() {
    const auto stream = device_.create_stream();
    EXPECT_TRUE(stream.ok());
    device_.submit_blocking_host_function(*stream);
    auto event = core_.events.prepare();
    EXPECT_TRUE(event.ok());
    EXPECT_EQ(core_.events.record(*event, *stream), Status::kOk);
    return *event;
  }
};

TEST_F(ArrivalsTest, APieceIsMappedWhenItsContentIsThereAndNotBefore) {
  const ManagerLock lock(core_.mutex);
  make_idle_page(1, own_blocked_event());
  const BufferId id = make_out(1, 7);
  const std::size_t mapped = device_.mapped_ranges();
  EXPECT_TRUE(demand(id));
  device_.drain();
  EXPECT_FALSE(mover_.settle_arrivals());
  EXPECT_EQ(place_of(id), PieceState::kArriving);
  EXPECT_EQ(device_.mapped_ranges(), mapped);
  EXPECT_TRUE(mover_.awaits_arrivals());
  EXPECT_TRUE(mover_rounds_.is_pending());
  unblock();
  EXPECT_TRUE(mover_.settle_arrivals());
  EXPECT_EQ(place_of(id), PieceState::kIn);
  EXPECT_EQ(device_value(id), 7);
  EXPECT_EQ(core_.buffers[id].missing, 0U);
  EXPECT_FALSE(mover_.awaits_arrivals());
  EXPECT_EQ(core_.counters.demand_fetches, 1U);
}

TEST_F(ArrivalsTest, APieceWithNothingToCopyIsMappedBehindWhatItsPageHadBefore) {
  const ManagerLock lock(core_.mutex);
  make_idle_page(1, own_blocked_event());
  const BufferId id = make_fresh(1);
  EXPECT_TRUE(demand(id));
  EXPECT_FALSE(mover_.settle_arrivals());
  EXPECT_EQ(place_of(id), PieceState::kArriving);
  unblock();
  EXPECT_TRUE(mover_.settle_arrivals());
  EXPECT_EQ(place_of(id), PieceState::kIn);
}

// What holds it back may itself wait for the program (I7).
TEST_F(ArrivalsTest, ContentBehindWorkOfTheProgramIsMappedAtOnce) {
  const ManagerLock lock(core_.mutex);
  make_idle_page(1, blocked_event());
  const BufferId in_a_page = make_out(1, 6);
  EXPECT_TRUE(demand(in_a_page));
  EXPECT_EQ(place_of(in_a_page), PieceState::kIn);
  const BufferId written = make_out(1, 7);
  note(written, kWrites, blocked_event());
  EXPECT_TRUE(demand(written));
  EXPECT_EQ(place_of(written), PieceState::kIn);
  EXPECT_FALSE(is_complete(core_.buffers[written].pieces[0].ready));
  unblock();
  EXPECT_EQ(device_value(in_a_page), 6);
  EXPECT_EQ(device_value(written), 7);
}

TEST_F(ArrivalsTest, FetchesBehindOneThatIsUnderWayAreNotAskedAbout) {
  const ManagerLock lock(core_.mutex);
  make_idle_page(1, own_blocked_event());
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(demand(make_out(1, i)));
  const int asked = device_.calls(Call::kIsComplete);
  EXPECT_FALSE(mover_.settle_arrivals());
  EXPECT_EQ(device_.calls(Call::kIsComplete), asked + 1);
  unblock();
  EXPECT_TRUE(mover_.settle_arrivals());
  EXPECT_FALSE(mover_.awaits_arrivals());
}

TEST_F(ArrivalsTest, APieceThatCannotBeMappedIsOutAndItsLaunchIsTold) {
  const ManagerLock lock(core_.mutex);
  make_idle_page(1);
  const BufferId id = make_out(1, 7);
  for (const std::uint32_t pins : {0U, 1U}) {
    EXPECT_TRUE(demand(id));
    core_.buffers[id].pins = pins;
    device_.fail(Call::kMap, 1, Status::kDeviceError);
    device_.drain();
    EXPECT_TRUE(mover_.settle_arrivals());
    EXPECT_EQ(place_of(id), PieceState::kOut);
    EXPECT_EQ(core_.buffers[id].pieces[0].fetch_status,
              pins == 0 ? Status::kOk : Status::kDeviceError)
        << "a launch that has given up is not told, nor the next one in its place";
  }
  core_.buffers[id].pins = 0;
  EXPECT_EQ(core_.counters.errors, 2U);
  EXPECT_THAT(take_idle_page().after, IsEmpty());
  EXPECT_TRUE(demand(id));
  device_.drain();
  EXPECT_TRUE(mover_.settle_arrivals());
  EXPECT_EQ(device_value(id), 7);
}

TEST_F(ArrivalsTest, APageOfWhoseCopyTheDeviceDoesNotTellServesNobody) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_out(1, 7);
  EXPECT_TRUE(prefetch(id));
  device_.fail(Call::kIsComplete, 1, Status::kDeviceError);
  EXPECT_TRUE(mover_.settle_arrivals());
  EXPECT_EQ(place_of(id), PieceState::kOut);
  EXPECT_EQ(core_.buffers[id].pieces[0].fetch_status, Status::kOk) << "no launch waited for it";
  EXPECT_TRUE(core_.buffers[id].host.is_untracked);
  EXPECT_TRUE(core_.pool->empty());
  EXPECT_TRUE(core_.pool->take_untracked().has_value());
}

// Zeros that no host copy has would be lost with the page.
TEST_F(ArrivalsTest, APieceThatCannotBeMappedIsStillKnownToBeZero) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_fresh(1);
  core_.buffers[id].fresh = false;
  core_.buffers[id].pieces[0].is_zero = true;
  EXPECT_TRUE(demand(id));
  ASSERT_EQ(place_of(id), PieceState::kArriving);
  device_.fail(Call::kMap, 1, Status::kDeviceError);
  device_.drain();
  EXPECT_TRUE(mover_.settle_arrivals());
  EXPECT_EQ(place_of(id), PieceState::kOut);
  EXPECT_TRUE(core_.buffers[id].pieces[0].is_zero);
  EXPECT_TRUE(demand(id));
  device_.drain();
  EXPECT_TRUE(mover_.settle_arrivals());
  EXPECT_FALSE(core_.buffers[id].pieces[0].is_zero);
  EXPECT_EQ(device_value(id), 0);
}

// What holds the copy back may wait for a launch that waits for the piece, in a way that no event
// tells.
TEST_F(ArrivalsTest, ContentThatDoesNotComeIsMappedAllTheSameForALaunchThatWaits) {
  const ManagerLock lock(core_.mutex);
  make_idle_page(1, own_blocked_event());
  const BufferId id = make_out(1, 7);
  EXPECT_TRUE(demand(id));
  pass(core_.options.wait_limit);
  EXPECT_FALSE(mover_.settle_arrivals()) << "nothing waits for it";
  ++core_.waits.waiters;
  EXPECT_TRUE(mover_.settle_arrivals());
  --core_.waits.waiters;
  EXPECT_EQ(place_of(id), PieceState::kIn);
  EXPECT_TRUE(core_.buffers[id].pieces[0].is_filling()) << "streams still wait for it";
  EXPECT_FALSE(mover_.awaits_arrivals());
  core_.flush_warnings();
  ASSERT_EQ(told_.size(), 1U);
  EXPECT_EQ(told_[0].find("content had not arrived on the device after 4"), 0U) << told_[0];
  unblock();
  EXPECT_EQ(device_value(id), 7);
}

TEST_F(ArrivalsTest, WhatIsCancelledLeavesItsPageBehindItsCopy) {
  const ManagerLock lock(core_.mutex);
  make_idle_page(1, own_blocked_event());
  const BufferId id = make_out(1, 7);
  const BufferId other = make_out(1, 8);
  EXPECT_TRUE(prefetch(id));
  EXPECT_TRUE(prefetch(other));
  const EventRef copy = core_.buffers[id].pieces[0].ready;
  const std::size_t mapped = device_.mapped_ranges();
  mover_.cancel_arrivals(id);
  EXPECT_EQ(place_of(id), PieceState::kOut);
  EXPECT_EQ(core_.buffers[id].moving, 0U);
  EXPECT_EQ(core_.buffers[id].pieces[0].ready, copy) << "the slab is being read still";
  EXPECT_THAT(take_idle_page().after, ElementsAre(copy));
  unblock();
  EXPECT_TRUE(mover_.settle_arrivals());
  EXPECT_EQ(place_of(id), PieceState::kOut);
  EXPECT_EQ(place_of(other), PieceState::kIn);
  EXPECT_EQ(device_.mapped_ranges(), mapped + 1);
  EXPECT_FALSE(mover_.awaits_arrivals());
}

/// A cached buffer that is about to serve an allocation.
class RenewTest : public ContentMoverTest {
 protected:
  using ContentMoverTest::ContentMoverTest;

  /// Its free lies behind work that is blocked, on a stream of its own.
  BufferId make_claimed() REQUIRES(manager_lock) {
    const BufferId id = make_cached(1, end_of(stream_));
    EXPECT_TRUE(core_.cache.erase(id, kGranule, kGranule));
    core_.buffers[id].freed_on = streams_.slot_of(stream_);
    core_.buffers[id].is_beginning = true;
    return id;
  }
  /// Whether work that is submitted to `stream` now runs at once.
  bool runs(StreamHandle stream) {
    bool done = false;
    device_.submit(stream, [&done] { done = true; });
    device_.drain();
    const bool at_once = done;
    unblock();
    EXPECT_TRUE(done);
    return at_once;
  }

  StreamHandle stream_ = blocked_stream();
};

TEST_F(RenewTest, MakesAnotherStreamWaitForTheFree) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_claimed();
  const StreamHandle other = device_.program_stream();
  EXPECT_EQ(mover_.renew(id, other), Status::kOk);
  EXPECT_EQ(core_.buffers[id].pieces[0].state(), PieceState::kIn);
  EXPECT_EQ(core_.buffers[id].freed, nullptr);
  EXPECT_FALSE(runs(other));
}

TEST_F(RenewTest, NeedsNoEventOnTheStreamOfTheFree) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_claimed();
  EXPECT_EQ(mover_.renew(id, stream_), Status::kOk);
  EXPECT_EQ(core_.buffers[id].pieces[0].state(), PieceState::kIn);
  EXPECT_EQ(device_.calls(Call::kStreamWait), 0);
}

TEST_F(RenewTest, StillKnowsOfTheFreeWhenTheStreamCannotBeMadeToWait) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_claimed();
  device_.fail(Call::kStreamWait, 1, Status::kDeviceError);
  EXPECT_EQ(mover_.renew(id, device_.program_stream()), Status::kDeviceError);
  EXPECT_NE(core_.buffers[id].freed, nullptr);
}

/// Buffers read as zero until they are written.
class ZeroFillTest : public RenewTest {
 protected:
  ZeroFillTest() : RenewTest(zero_filling_options()) {}
};

TEST_F(ZeroFillTest, ANewBufferReadsAsZeroOnAUsedPage) {
  const ManagerLock lock(core_.mutex);
  make_idle_page(1);
  const BufferId id = make_fresh(1);
  EXPECT_TRUE(demand(id));
  device_.drain();
  EXPECT_TRUE(is_complete(core_.buffers[id].pieces[0].ready));
  EXPECT_EQ(device_value(id), 0);
}

TEST_F(ZeroFillTest, ACachedBufferIsZeroedBehindItsFree) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_claimed();
  const Address base = core_.buffers[id].base;
  const std::vector<std::byte> last(kGranule.count(), std::byte{3});
  device_.submit(stream_, [&] { device_.write(base, last.size(), last.data()); });
  core_.buffers[id].freed = end_of(stream_);
  EXPECT_EQ(mover_.renew(id, device_.program_stream()), Status::kOk);
  device_.drain();
  EXPECT_FALSE(is_complete(core_.buffers[id].pieces[0].ready));
  unblock();
  EXPECT_TRUE(is_complete(core_.buffers[id].pieces[0].ready));
  EXPECT_EQ(device_value(id), 0);
}

}  // namespace
}  // namespace superpipe::testing
