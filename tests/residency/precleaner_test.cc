// Content that is copied to the host before it is chosen to leave.
#include "residency/room/precleaner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "residency/uses/buffer_lifetimes.h"
#include "tests/residency/core_fixture.h"

namespace superpipe::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// Under a plan whose first pass wrote back its second buffer, then its first one; each is a page.
class PrecleanerTest : public UsingCoreTest {
 protected:
  static ResidencyOptions planned_options(std::uint64_t budget_pages = 1024) {
    ResidencyOptions options = options_of(budget_pages);
    options.compares_digests = true;
    options.policy.kind = PolicyKind::kAuto;
    RecordedRun run;
    run.footprints = {kGranule, kGranule};
    run.names = {0, 1};
    run.launches = {{KernelId{1}, 0, 2}};
    run.write_backs = {{1, 0}, {0, 0}};
    options.policy.recorded = std::make_shared<const RecordedRun>(std::move(run));
    return options;
  }
  explicit PrecleanerTest(ResidencyOptions options = planned_options())
      : UsingCoreTest(std::move(options)) {}

  /// A buffer that is on the device alone, used long ago.
  BufferId begin(int value, std::uint64_t pages = 1) REQUIRES(manager_lock) {
    const BufferId id = make_dirty(pages, value);
    core_.buffers[id].number = core_.numbers.next();
    precleaner_.on_begin_life(id);
    core_.seq += 100;
    return id;
  }
  /// A slab is pinned for each of `slabs` evictions. All that lives fits still.
  void stock(int slabs) REQUIRES(manager_lock) {
    // What is in use decides how much may be in stock.
    for (int i = 0; i < 64; ++i) {
      const auto slab = core_.host.acquire(2 * kGranule, false);
      ASSERT_TRUE(slab.ok());
      in_use_.push_back(*slab);
    }
    const std::vector<Bytes> sizes(static_cast<std::size_t>(slabs), kGranule);
    core_.host.expect(sizes);
    for (int i = 0; i < slabs; ++i) ASSERT_TRUE(core_.host.stock(kGranule));
  }
  void TearDown() override {
    for (const Slab& slab : in_use_) core_.host.release(slab, {});
    UsingCoreTest::TearDown();
  }
  /// Begins to copy the second of two buffers, for which alone there is a slab.
  BufferId begin_cleaning() REQUIRES(manager_lock) {
    (void)begin(7);
    const BufferId id = begin(9);
    stock(1);
    EXPECT_TRUE(precleaner_.run());
    return id;
  }
  /// The program has loaded what it needs.
  void launch_something() REQUIRES(manager_lock) {
    (void)core_.policy.on_launch(Access{KernelId{9}, {}});
  }
  /// Lets the copy that is under way come to its end.
  void finish() REQUIRES(manager_lock) {
    device_.drain();
    ASSERT_TRUE(evictor_.settle_precleaning());
  }
  Piece& piece_of(BufferId id) REQUIRES(manager_lock) { return core_.buffers[id].pieces[0]; }
  /// A launch fills the buffer, which is in, with `value`.
  void write(BufferId id, int value) REQUIRES(manager_lock) {
    core_.buffers[id].note_write();
    const std::vector<std::byte> bytes(core_.buffers[id].footprint.count(),
                                       static_cast<std::byte>(value));
    ASSERT_TRUE(device_.write(core_.buffers[id].base, bytes.size(), bytes.data()));
  }
  bool demand(BufferId id) REQUIRES(manager_lock) {
    piece_of(id).want = Want::kDemand;
    return mover_.fetch({id, 0}, true) == ContentMover::Fetched::kSettled;
  }
  void evict(BufferId id) REQUIRES(manager_lock) {
    evictor_.evict({id, 0});
    device_.drain();
    while (evictor_.settle_digests()) device_.drain();
  }

  BufferLifetimes lifetimes_{core_,      streams_,  pages_,   mover_,
                             evictions_, left_out_, digests_, precleaner_};
  const StreamHandle stream_ = device_.program_stream();

 private:
  std::vector<Slab> in_use_;
};

TEST_F(PrecleanerTest, CopiesWhatTheRecordedRunWroteBackInItsOrder) {
  const ManagerLock lock(core_.mutex);
  const BufferId first = begin(7);
  const BufferId second = begin(9);
  stock(2);
  EXPECT_TRUE(precleaner_.run());
  EXPECT_EQ(piece_of(second).state(), PieceState::kCopying);
  EXPECT_TRUE(precleaner_.is_pending());
  EXPECT_FALSE(precleaner_.run()) << "one at a time";
  device_.drain();
  EXPECT_TRUE(evictor_.settle_precleaning());
  EXPECT_TRUE(precleaner_.run());
  EXPECT_EQ(piece_of(second).state(), PieceState::kIn);
  EXPECT_EQ(piece_of(first).state(), PieceState::kCopying);
  finish();
  launch_something();
  EXPECT_FALSE(precleaner_.run());
  EXPECT_FALSE(precleaner_.rest().has_value());
  EXPECT_EQ(device_value(first), 7);
  EXPECT_EQ(host_value(first), 7);
  EXPECT_EQ(device_value(second), 9);
  EXPECT_EQ(host_value(second), 9);
  EXPECT_EQ(core_.counters.precleaned, 2U);
  EXPECT_EQ(core_.counters.d2h_bytes, 2 * kGranule);
}

TEST_F(PrecleanerTest, ThenTheEvictionCopiesNothingAndIsToldToLaterRuns) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = begin_cleaning();
  finish();
  write(id, 9);  // a launch that only reads
  evict(id);
  EXPECT_EQ(piece_of(id).state(), PieceState::kOut);
  EXPECT_FALSE(piece_of(id).has_page());
  EXPECT_EQ(core_.counters.write_backs, 0U);
  EXPECT_EQ(core_.counters.d2h_bytes, kGranule);
  EXPECT_THAT(evictor_.noted_write_backs(), ElementsAre(RecordedRun::PieceOf{1, 0}));
}

TEST_F(PrecleanerTest, WhatALaunchChangedSinceIsWrittenBack) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = begin_cleaning();
  finish();
  write(id, 8);
  evict(id);
  EXPECT_EQ(core_.counters.write_backs, 1U);
  EXPECT_EQ(host_value(id), 8);
}

// As a program does that makes its tensors on the device, and then reads them from a file.
TEST_F(PrecleanerTest, WhatIsFilledAnewWhileTheProgramLoadsIsCopiedOnceMore) {
  const ManagerLock lock(core_.mutex);
  (void)begin(7);
  const BufferId id = begin(9);
  stock(1);
  for (int value = 9; value < 12; ++value) {
    if (value > 9) {
      write(id, value);
      core_.buffers[id].note_known_write();
    }
    core_.seq += 100;
    EXPECT_EQ(precleaner_.run(), value < 11) << "not for ever";
    if (core_.is_precleaning) finish();
    EXPECT_EQ(host_value(id), std::min(value, 10));
    EXPECT_FALSE(precleaner_.run()) << "nothing has changed since";
  }
  evict(id);
  EXPECT_EQ(host_value(id), 11);
}

TEST_F(PrecleanerTest, WhatIsFilledWhileItIsCopiedIsCopiedOnceMore) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = begin_cleaning();
  ASSERT_TRUE(demand(id));
  device_.drain();
  write(id, 8);
  core_.buffers[id].note_known_write();
  EXPECT_TRUE(evictor_.settle_precleaning());
  core_.seq += 100;
  EXPECT_TRUE(precleaner_.run());
  finish();
  EXPECT_EQ(host_value(id), 8);
  EXPECT_FALSE(core_.buffers[id].is_dirty(0));
}

TEST_F(PrecleanerTest, AfterTheFirstLaunchNothingIsCopiedASecondTime) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = begin_cleaning();
  finish();
  EXPECT_TRUE(precleaner_.rest().has_value());
  launch_something();
  write(id, 8);
  core_.buffers[id].note_known_write();
  core_.seq += 100;
  EXPECT_FALSE(precleaner_.run());
  EXPECT_EQ(core_.counters.precleaned, 1U);
}

// The plan was for less than there is now: perhaps nothing has to go.
TEST_F(PrecleanerTest, UnderALargerBudgetThanTheRecordedOneWaitsUntilNotEverythingFits) {
  const ManagerLock lock(core_.mutex);
  (void)begin(7);
  (void)begin(9);
  stock(2);
  const Bytes planned = *core_.options.policy.budget;
  ASSERT_EQ(core_.page_limit.set_budget(planned + kGranule), BudgetAnswer::kChanged);
  EXPECT_FALSE(precleaner_.run());
  EXPECT_EQ(precleaner_.rest(), Precleaner::kLongestRest);
  core_.ledger.set_limit(kGranule, true);
  EXPECT_TRUE(precleaner_.run());
  finish();
}

// A program that loads less than there is room for, and makes the rest itself.
TEST_F(PrecleanerTest, BeginsWhileEverythingFitsOnceUsesAreOver) {
  const ManagerLock lock(core_.mutex);
  const BufferId first = begin(7);
  const BufferId second = begin(9);
  stock(2);
  ASSERT_FALSE(core_.ledger.is_under_pressure());
  for (const BufferId id : {first, second}) use(id, blocked_stream());
  core_.seq += 100;
  run_rounds();
  EXPECT_EQ(core_.counters.precleaned, 0U) << "both are in use";
  unblock();
  run_rounds();
  EXPECT_EQ(core_.counters.precleaned, 2U);
  EXPECT_EQ(host_value(first), 7);
  EXPECT_EQ(host_value(second), 9);
}

TEST_F(PrecleanerTest, UnmapsBeforeItReadsAndMapsWhenItHasRead) {
  const ManagerLock lock(core_.mutex);
  (void)begin(7);
  (void)begin(9);
  stock(1);
  std::vector<Call> calls;
  device_.on_call = [&calls](Call call) {
    const bool counts = call == Call::kUnmap || call == Call::kDigest ||
                        call == Call::kCopyToHost || call == Call::kMap;
    if (counts) calls.push_back(call);
  };
  EXPECT_TRUE(precleaner_.run());
  EXPECT_FALSE(evictor_.settle_precleaning()) << "the copy is under way";
  EXPECT_THAT(calls, ElementsAre(Call::kUnmap, Call::kDigest, Call::kCopyToHost));
  finish();
  EXPECT_THAT(calls, ElementsAre(Call::kUnmap, Call::kDigest, Call::kCopyToHost, Call::kMap));
  device_.on_call = nullptr;
}

TEST_F(PrecleanerTest, WhoeverWantsThePieceHasItMappedAtOnceAndWaitsForTheCopy) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = begin_cleaning();
  ASSERT_TRUE(demand(id));
  EXPECT_EQ(piece_of(id).state(), PieceState::kIn);
  EXPECT_NE(piece_of(id).ready, nullptr);
  EXPECT_EQ(piece_of(id).ready, piece_of(id).write_back);
  device_.drain();
  write(id, 8);
  EXPECT_TRUE(evictor_.settle_precleaning());
  EXPECT_EQ(piece_of(id).state(), PieceState::kIn);
  EXPECT_FALSE(piece_of(id).host_digest.has_value());
  evict(id);
  EXPECT_EQ(core_.counters.write_backs, 1U);
  EXPECT_EQ(host_value(id), 8);
}

TEST_F(PrecleanerTest, WhatIsWantedWhenTheCopyEndsIsMappedInItsTurn) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = begin_cleaning();
  piece_of(id).want = Want::kDemand;
  finish();
  EXPECT_EQ(piece_of(id).state(), PieceState::kUnmapped);
  EXPECT_FALSE(core_.buffers[id].is_dirty(0));
  ASSERT_TRUE(demand(id));
  EXPECT_EQ(device_value(id), 9);
  EXPECT_EQ(core_.counters.h2d_bytes, Bytes{});
}

TEST_F(PrecleanerTest, APageThatIsGivenOnMeanwhileWaitsForTheCopy) {
  const ManagerLock lock(core_.mutex);
  (void)begin(7);
  const BufferId id = begin(9);
  stock(1);
  const Address base = core_.buffers[id].base;
  EXPECT_TRUE(precleaner_.run());
  {
    const Unlocked unlocked(core_.mutex);
    EXPECT_EQ(lifetimes_.free(base, stream_), Status::kOk);
  }
  auto page = core_.pool->take(kGranule);
  ASSERT_TRUE(page.has_value());
  ASSERT_FALSE(page->after.empty());
  finish();
  EXPECT_TRUE(is_complete(page->after.front()));
  core_.pool->put(std::move(*page));
  EXPECT_FALSE(core_.is_precleaning);
}

TEST_F(PrecleanerTest, NothingIsCopiedWhereItIsOfNoUseOrWouldHoldUpOthers) {
  const ManagerLock lock(core_.mutex);
  const BufferId other = begin(7);
  const BufferId id = begin(9);
  stock(0);
  EXPECT_FALSE(precleaner_.run()) << "no slab is in stock";
  core_.host.release(*core_.host.acquire(kGranule, false), {});
  EXPECT_FALSE(precleaner_.run()) << "and nobody pinned one for this";
  const auto slab = core_.host.acquire(kGranule, false);
  ASSERT_TRUE(slab.ok());
  core_.buffers[id].host.slab = *slab;
  core_.buffers[id].note_slab_lacks(0);
  core_.buffers[id].last_use = core_.seq;
  EXPECT_FALSE(precleaner_.run()) << "it may still be being filled";
  core_.seq += 100;
  ++core_.buffers[id].pins;
  EXPECT_FALSE(precleaner_.run()) << "an operation is about to use it";
  --core_.buffers[id].pins;
  use(id, blocked_stream());
  core_.seq += 100;
  EXPECT_FALSE(precleaner_.run()) << "an operation uses it";
  unblock();
  core_.buffers[id].uses = 0;
  EXPECT_GT(evictions_.request(std::vector{other}), Bytes{});
  EXPECT_FALSE(precleaner_.run()) << "an eviction waits";
  evictions_.revoke(other);
  (void)evictions_.take_next();
  core_.follows_recorded = false;
  EXPECT_FALSE(precleaner_.run()) << "the plan is over";
  core_.follows_recorded = true;
  EXPECT_TRUE(precleaner_.run());
  finish();
}

TEST_F(PrecleanerTest, BuffersAreThoseOfTheirSizeAndPlace) {
  const ManagerLock lock(core_.mutex);
  (void)begin(7);
  EXPECT_TRUE(precleaner_.rest().has_value());
  const BufferId larger = begin(8, 2);
  const BufferId second = begin(9);
  const BufferId third = begin(6);
  stock(3);
  for (int step = 0; step < 8; ++step) {
    (void)precleaner_.run();
    device_.drain();
    (void)evictor_.settle_precleaning();
  }
  EXPECT_EQ(core_.counters.precleaned, 2U);
  EXPECT_TRUE(piece_of(second).was_precleaned);
  EXPECT_FALSE(piece_of(third).was_precleaned);
  EXPECT_FALSE(piece_of(larger).was_precleaned);
}

TEST_F(PrecleanerTest, AFailingCallLeavesTheContentWhereItIs) {
  for (const Call call : {Call::kUnmap, Call::kDigest, Call::kCopyToHost, Call::kRecord}) {
    const ManagerLock lock(core_.mutex);
    const BufferId id = make_dirty(1, 9);
    device_.fail(call, 1, Status::kDeviceError);
    evictor_.preclean({id, 0});
    device_.drain();
    if (core_.is_precleaning) {
      EXPECT_TRUE(evictor_.settle_precleaning());
    }
    EXPECT_EQ(piece_of(id).state(), PieceState::kIn) << static_cast<int>(call);
    EXPECT_NE(piece_of(id).state(), PieceState::kCopying);
    EXPECT_EQ(device_value(id), 9);
    EXPECT_TRUE(core_.buffers[id].is_dirty(0) || host_value(id) == 9);
    EXPECT_GT(core_.counters.errors, 0U);
  }
}

// A kernel of the program may keep it from running for as long as it likes.
TEST_F(PrecleanerTest, ADigestThatDoesNotComeIsNotWaitedFor) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_dirty(1, 9);
  device_.hold_digests(true);
  evictor_.preclean({id, 0});
  device_.drain();
  EXPECT_FALSE(evictor_.settle_precleaning()) << "it may come soon";
  pass(Evictor::kPatience);
  EXPECT_TRUE(evictor_.settle_precleaning());
  EXPECT_EQ(piece_of(id).state(), PieceState::kIn);
  EXPECT_FALSE(core_.buffers[id].is_dirty(0)) << "the copy counts all the same";
  EXPECT_EQ(host_value(id), 9);
  EXPECT_TRUE(evictor_.is_pending()) << "its slot is in use";
  device_.hold_digests(false);
  device_.drain();
  EXPECT_TRUE(evictor_.settle_digests());
  EXPECT_FALSE(evictor_.is_pending());
  EXPECT_FALSE(piece_of(id).host_digest.has_value());
  evict(id);
  EXPECT_EQ(core_.counters.write_backs, 1U) << "nothing tells that no kernel has written since";
}

TEST_F(PrecleanerTest, WithoutASlotForItsDigestTheCopyCounts) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_dirty(1, 9);
  Page idle = make_page(kGranule);
  while (core_.digester.enqueue(idle.window, kGranule).status == Status::kOk) {
  }
  evictor_.preclean({id, 0});
  finish();
  EXPECT_FALSE(core_.buffers[id].is_dirty(0));
  EXPECT_FALSE(piece_of(id).host_digest.has_value());
  EXPECT_EQ(host_value(id), 9);
  core_.pool->put(std::move(idle));
}

TEST_F(PrecleanerTest, WhatCannotBeCopiedIsLookedAtLessAndLessOftenAndHoldsUpNobody) {
  const ManagerLock lock(core_.mutex);
  (void)begin(7);
  const BufferId id = begin(9);
  stock(1);
  ++core_.buffers[id].pins;
  EXPECT_TRUE(precleaner_.run()) << "the other one";
  finish();
  EXPECT_EQ(core_.counters.precleaned, 1U);
  for (int look = 1; look <= 8; ++look) {
    EXPECT_FALSE(precleaner_.run());
    EXPECT_EQ(*precleaner_.rest(),
              std::min<std::chrono::nanoseconds>(Precleaner::kShortestRest * (1 << look),
                                                 Precleaner::kLongestRest));
  }
  core_.buffers[id].pins = 0;
  core_.buffers[id].pinned_forever = true;
  launch_something();
  EXPECT_FALSE(precleaner_.run());
  EXPECT_FALSE(precleaner_.rest().has_value()) << "it will never go";
}

TEST_F(PrecleanerTest, APieceThatCannotBeMappedAgainIsMappedByItsNextUse) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_dirty(1, 9);
  evictor_.preclean({id, 0});
  device_.fail(Call::kMap, 1, Status::kDeviceError);
  finish();
  EXPECT_EQ(piece_of(id).state(), PieceState::kUnmapped);
  ASSERT_TRUE(demand(id));
  EXPECT_EQ(device_value(id), 9);
}

// Nobody else can go, but the piece can when its copy has ended.
TEST_F(PrecleanerTest, ALaunchThatLetsOthersGoUnderALoweredBudgetWaitsForIt) {
  const BufferId cleaned = dirty(1, 9);
  const BufferId named = dirty(1, 5);
  {
    const ManagerLock lock(core_.mutex);
    evictor_.preclean({cleaned, 0});
    ASSERT_EQ(core_.page_limit.set_budget(kGranule), BudgetAnswer::kChanged);
    ASSERT_TRUE(core_.page_limit.is_lowered());
  }
  in_round(3, [this] { device_.drain(); });
  UseToken token;
  ASSERT_EQ(uses_.begin_launch(KernelId{1}, {{core_.buffers[named].base.load()}}, stream_, token),
            Status::kOk);
  uses_.end_use(token, stream_, true);
  device_.drain();
  const ManagerLock lock(core_.mutex);
  EXPECT_EQ(core_.ledger.pages(), kGranule);
  EXPECT_EQ(piece_of(cleaned).state(), PieceState::kOut);
  EXPECT_EQ(host_value(cleaned), 9);
  EXPECT_EQ(core_.counters.errors, 0U);
}

TEST_F(PrecleanerTest, WhatALoweredBudgetTakesGoesWhenItsCopyHasEnded) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_dirty(1, 9);
  const BufferId other = make_dirty(1, 5);
  core_.buffers[other].pins = 1;
  evictor_.preclean({id, 0});
  core_.ledger.set_limit(kGranule, true);
  (void)mover_rounds_.run();
  EXPECT_EQ(core_.ledger.pages(), 2 * kGranule) << "the copy is under way";
  run_rounds();
  EXPECT_EQ(core_.ledger.pages(), kGranule) << "without waiting for the next sample";
  EXPECT_EQ(host_value(id), 9);
  core_.buffers[other].pins = 0;
}

class OnePagePrecleanerTest : public PrecleanerTest {
 protected:
  OnePagePrecleanerTest() : PrecleanerTest(planned_options(1)) {}
};

// The only page is that of a piece which comes back by itself.
TEST_F(OnePagePrecleanerTest, ALaunchThatNeedsItsRoomWaitsForIt) {
  const BufferId cleaned = dirty(1, 9);
  const BufferId needed = out(1, 5);
  {
    const ManagerLock lock(core_.mutex);
    evictor_.preclean({cleaned, 0});
  }
  in_round(3, [this] { device_.drain(); });
  UseToken token;
  ASSERT_EQ(uses_.begin_launch(KernelId{1}, {{core_.buffers[needed].base.load()}}, stream_, token),
            Status::kOk);
  uses_.end_use(token, stream_, true);
  device_.drain();
  EXPECT_EQ(device_value(needed), 5);
  EXPECT_EQ(host_value(cleaned), 9);
  const ManagerLock lock(core_.mutex);
  EXPECT_EQ(piece_of(cleaned).state(), PieceState::kOut);
  EXPECT_EQ(core_.counters.errors, 0U);
}

// Few values, so that content comes back to what it was.
TEST_F(PrecleanerTest, NoContentIsEverLost) {
  const ManagerLock lock(core_.mutex);
  std::mt19937 random(7);
  constexpr std::size_t kBuffers = 4;
  std::vector<BufferId> ids;
  std::vector<int> values(kBuffers, 1);
  for (std::size_t i = 0; i < kBuffers; ++i) ids.push_back(make_dirty(1, 1));
  for (int step = 0; step < 20'000; ++step) {
    const std::size_t chosen = random() % kBuffers;
    const BufferId id = ids[chosen];
    Piece& piece = piece_of(id);
    const bool is_settled =
        piece.state() == PieceState::kIn && (piece.ready == nullptr || is_complete(piece.ready));
    switch (random() % 6) {
      case 0:
        if (is_settled && !core_.is_precleaning && core_.buffers[id].is_dirty(0)) {
          evictor_.preclean({id, 0});
        }
        break;
      case 1:
        if (is_settled) evictor_.evict({id, 0});
        break;
      case 2:
      case 3:
        if (piece.is_out() && !demand(id)) break;
        // A launch waits for what arrives, and for nothing else.
        if (piece.is_filling()) device_.drain();
        ASSERT_EQ(device_value(id), values[chosen]) << step;
        values[chosen] = static_cast<int>(random() % 3);
        write(id, values[chosen]);
        break;
      case 4:
        device_.drain();
        break;
      default:
        (void)evictor_.settle_digests();
        (void)evictor_.settle_precleaning();
    }
  }
  EXPECT_GT(core_.counters.precleaned, 500U);
  EXPECT_GT(core_.counters.clean_evictions, 100U);
}

class UnplannedPrecleanerTest : public UsingCoreTest {};

TEST_F(UnplannedPrecleanerTest, WithoutAPlanNothingIsCopiedAhead) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_dirty(1, 9);
  precleaner_.on_begin_life(id);
  core_.seq += 100;
  core_.ledger.set_limit(Bytes{}, true);
  EXPECT_FALSE(precleaner_.rest().has_value());
  EXPECT_FALSE(precleaner_.run());
}

}  // namespace
}  // namespace superpipe::testing
