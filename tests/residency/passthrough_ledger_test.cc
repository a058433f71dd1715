// Pass-through memory: what is counted, what a sample says, and what the budget keeps free.
#include "residency/room/passthrough_ledger.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>

namespace superpipe {
namespace {

using std::chrono::milliseconds;
using enum PassthroughLedger::Settling;

class PassthroughLedgerTest : public ::testing::Test {
 protected:
  /// A device that held 100 MiB before; a budget of 1 GiB with a headroom of 64 MiB.
  PassthroughLedgerTest() { ledger_.start(100_MiB); }

  /// The device says that it holds `used` besides our pages.
  bool sample(Bytes used) {
    return ledger_.end_sample(ledger_.begin_sample(), used, now_ += milliseconds{10});
  }
  /// The program allocates `size` bytes. @return whether a sample is wanted soon.
  bool allocate(Bytes size) {
    ledger_.begin_allocation(size);
    return ledger_.end_allocation(size, true);
  }
  /// A call of the driver changes pass-through memory. @return whether it is the first since the
  /// last sample.
  bool note(PassthroughChange change) {
    ledger_.begin_change(change);
    return ledger_.end_change(change);
  }

  PassthroughLedger ledger_{1_GiB, 64_MiB, 2_MiB};
  PassthroughLedger::TimePoint now_{std::chrono::hours{1}};
};

TEST_F(PassthroughLedgerTest, ReservesTheHeadroomAtFirst) {
  EXPECT_EQ(ledger_.bytes(), Bytes{});
  EXPECT_EQ(ledger_.reserved(), 64_MiB);
}

TEST_F(PassthroughLedgerTest, ReservesMoreOnlyWhenGrowthExceedsTheHeadroom) {
  allocate(40_MiB);
  EXPECT_EQ(ledger_.bytes(), 40_MiB);
  EXPECT_EQ(ledger_.reserved(), 64_MiB);
  allocate(40_MiB);
  EXPECT_EQ(ledger_.reserved(), 80_MiB);
}

TEST_F(PassthroughLedgerTest, KeepsFreeWhatAPoolTakesAtATime) {
  PassthroughLedger ledger{1_GiB, 2_MiB, 2_MiB};
  ledger.start(100_MiB);
  const auto sample = [&](Bytes used) {
    (void)ledger.end_sample(ledger.begin_sample(), used, now_ += milliseconds{10});
  };
  const auto allocate = [&](Bytes size) {
    ledger.begin_allocation(size);
    (void)ledger.end_allocation(size, true);
  };
  EXPECT_EQ(ledger.reserved(), 2_MiB);
  allocate(1_MiB);
  sample(100_MiB + 8_MiB);
  EXPECT_EQ(ledger.reserved(), 8_MiB + 8_MiB);
  allocate(1_MiB);
  sample(100_MiB + 8_MiB);
  EXPECT_EQ(ledger.reserved(), 8_MiB + 8_MiB) << "it fitted what the pool had";
  ledger.begin_change(PassthroughChange::kGrowth);
  (void)ledger.end_change(PassthroughChange::kGrowth);
  allocate(1_MiB);
  sample(100_MiB + 48_MiB);
  EXPECT_EQ(ledger.reserved(), 48_MiB + 8_MiB) << "code is loaded once";
  EXPECT_TRUE(ledger.forgo_pool_growth());
  EXPECT_EQ(ledger.reserved(), 48_MiB + 2_MiB);
  EXPECT_FALSE(ledger.forgo_pool_growth());
}

TEST_F(PassthroughLedgerTest, OutgrowsTheHeadroomWithWhatTheDriverIsBeingAskedFor) {
  EXPECT_FALSE(ledger_.outgrows_headroom(64_MiB));
  EXPECT_TRUE(ledger_.outgrows_headroom(65_MiB));
  allocate(40_MiB);
  ledger_.begin_allocation(20_MiB);
  EXPECT_FALSE(ledger_.outgrows_headroom(4_MiB));
  EXPECT_TRUE(ledger_.outgrows_headroom(5_MiB));
  (void)ledger_.end_allocation(20_MiB, false);
  EXPECT_FALSE(ledger_.outgrows_headroom(24_MiB));
  sample(100_MiB + 40_MiB);
  EXPECT_FALSE(ledger_.outgrows_headroom(64_MiB));
}

TEST_F(PassthroughLedgerTest, HasSeenWhatTheLastSampleFound) {
  allocate(40_MiB);
  EXPECT_EQ(ledger_.seen(), 40_MiB) << "nobody has looked";
  sample(100_MiB + 40_MiB);
  for (int i = 0; i < 10; ++i) {
    allocate(8_MiB);
    note(PassthroughChange::kFree);
  }
  EXPECT_EQ(ledger_.seen(), 40_MiB);
  EXPECT_EQ(ledger_.bytes(), 120_MiB);
  sample(100_MiB + 48_MiB);
  EXPECT_EQ(ledger_.seen(), 48_MiB);
}

TEST_F(PassthroughLedgerTest, TakesASampleForTheTruth) {
  allocate(40_MiB);
  note(PassthroughChange::kFree);
  EXPECT_TRUE(sample(100_MiB + 30_MiB)) << "10 MiB of it have been freed";
  EXPECT_EQ(ledger_.bytes(), 30_MiB);
  EXPECT_EQ(ledger_.reserved(), 94_MiB);
  note(PassthroughChange::kGrowth);
  EXPECT_TRUE(sample(100_MiB + 50_MiB)) << "code, which no hook counts";
  EXPECT_EQ(ledger_.bytes(), 50_MiB);
  EXPECT_FALSE(sample(100_MiB + 50_MiB));
}

TEST_F(PassthroughLedgerTest, CountsWhatIsForeseenThroughSamplesUntilItIsTaken) {
  ledger_.begin_foreseen(80_MiB);
  EXPECT_EQ(ledger_.bytes(), 80_MiB);
  sample(100_MiB);
  EXPECT_EQ(ledger_.bytes(), 80_MiB) << "the driver has not taken it yet";
  ledger_.end_foreseen(80_MiB, /*taken=*/true);
  EXPECT_EQ(ledger_.bytes(), 80_MiB);
  EXPECT_TRUE(sample(100_MiB + 50_MiB)) << "it took less";
  EXPECT_EQ(ledger_.bytes(), 50_MiB);
  EXPECT_EQ(ledger_.reserved(), 50_MiB + 64_MiB);
}

TEST_F(PassthroughLedgerTest, KeepsTheHeadroomBesideWhatIsForeseen) {
  ledger_.begin_foreseen(80_MiB);
  EXPECT_EQ(ledger_.reserved(), 80_MiB + 64_MiB);
  allocate(60_MiB);
  EXPECT_EQ(ledger_.reserved(), 80_MiB + 64_MiB) << "that is what the headroom is for";
  ledger_.end_foreseen(80_MiB, /*taken=*/true);
  EXPECT_EQ(ledger_.reserved(), 80_MiB + 64_MiB);
  EXPECT_EQ(ledger_.allowed(), 1024_MiB - 144_MiB);
  sample(100_MiB + 150_MiB);
  EXPECT_EQ(ledger_.reserved(), 150_MiB + 64_MiB);
  EXPECT_EQ(ledger_.bytes(), 150_MiB) << "all that was counted is in the sample";
}

TEST_F(PassthroughLedgerTest, AsksForNothingThatNobodyTells) {
  note(PassthroughChange::kGrowth);
  sample(100_MiB + 30_MiB);
  EXPECT_FALSE(ledger_.wants_own(now_, kBeforeRefusal));
}

/// What this process has is known: it had 40 MiB of what the device held before.
class PassthroughLedgerWithOwnTest : public PassthroughLedgerTest {
 protected:
  PassthroughLedgerWithOwnTest() { ledger_.start(100_MiB, 40_MiB); }

  /// The device says that it holds `used`, and that this process has `own`.
  bool settle(Bytes own, Bytes used) {
    ledger_.begin_own(now_);
    sample(used);
    return ledger_.settle(own, used, true);
  }
};

TEST_F(PassthroughLedgerWithOwnTest, ChargesNothingOfANeighbours) {
  EXPECT_FALSE(ledger_.wants_own(now_, kBeforeRefusal)) << "nothing was guessed";
  allocate(10_MiB);
  sample(100_MiB + 10_MiB);
  EXPECT_FALSE(ledger_.wants_own(now_, kBeforeRefusal)) << "all was counted";
  note(PassthroughChange::kGrowth);
  sample(100_MiB + 310_MiB);
  EXPECT_EQ(ledger_.bytes(), 310_MiB);
  EXPECT_TRUE(ledger_.wants_own(now_, kWhenDue));
  EXPECT_TRUE(settle(40_MiB + 30_MiB, 410_MiB));
  EXPECT_EQ(ledger_.bytes(), 30_MiB);
  EXPECT_FALSE(ledger_.wants_own(now_, kBeforeRefusal));
  EXPECT_FALSE(sample(410_MiB)) << "and it stays so";
  EXPECT_EQ(ledger_.bytes(), 30_MiB);
}

TEST_F(PassthroughLedgerWithOwnTest, ChargesWhatWasTakenForANeighbours) {
  allocate(200_MiB);
  sample(300_MiB);
  note(PassthroughChange::kFree);
  sample(240_MiB);  // a neighbour gave that back: this process freed nothing
  EXPECT_EQ(ledger_.bytes(), 140_MiB);
  EXPECT_TRUE(ledger_.wants_own(now_, kWhenDue));
  EXPECT_TRUE(settle(40_MiB + 200_MiB, 240_MiB));
  EXPECT_EQ(ledger_.bytes(), 200_MiB);
}

TEST_F(PassthroughLedgerWithOwnTest, AsksWhatWasCutOffAsMoreThanItCanHaveTaken) {
  note(PassthroughChange::kGrowth);
  sample(100_MiB + 1_GiB);
  settle(40_MiB + 1_GiB, 100_MiB + 1_GiB);
  note(PassthroughChange::kGrowth);
  sample(100_MiB + 1536_MiB);
  EXPECT_EQ(ledger_.bytes(), 1536_MiB) << "what was settled is no guess that fills the bound";
  note(PassthroughChange::kGrowth);
  sample(100_MiB + 4_GiB);
  EXPECT_EQ(ledger_.bytes(), 2_GiB) << "guesses are bounded";
  EXPECT_TRUE(ledger_.wants_own(now_, kBeforeRefusal));
  settle(40_MiB + 4_GiB, 100_MiB + 4_GiB);
  EXPECT_EQ(ledger_.bytes(), 4_GiB);
}

TEST_F(PassthroughLedgerWithOwnTest, DoesNotAskForWhatANeighbourDoesAlone) {
  sample(100_MiB + 300_MiB);
  EXPECT_EQ(ledger_.bytes(), Bytes{});
  EXPECT_FALSE(ledger_.wants_own(now_, kBeforeRefusal));
}

TEST_F(PassthroughLedgerWithOwnTest, AsksLessOftenWhileGuessesAreRight) {
  allocate(200_MiB);
  Bytes used = 300_MiB;
  const auto guess = [&] {
    note(PassthroughChange::kGrowth);
    used += 2_MiB;
    sample(used);
  };
  const auto asked_at = [&] { return now_ - milliseconds{10}; };  // before the last sample
  guess();
  EXPECT_TRUE(ledger_.wants_own(now_, kWhenDue)) << "the first time";
  settle(used - 60_MiB - 6_MiB, used);  // four blocks off: right enough
  guess();
  EXPECT_FALSE(ledger_.wants_own(asked_at() + milliseconds{1980}, kWhenDue));
  EXPECT_TRUE(ledger_.wants_own(asked_at() + milliseconds{2000}, kWhenDue));
  EXPECT_TRUE(ledger_.wants_own(now_, kBeforeRefusal)) << "before a refusal at any time";
  settle(used - 60_MiB - 6_MiB, used);
  guess();
  EXPECT_TRUE(ledger_.wants_own(asked_at() + milliseconds{2000}, kWhenDue))
      << "that was not its turn";
  settle(used - 60_MiB - 16_MiB, used);
  guess();
  EXPECT_FALSE(ledger_.wants_own(asked_at() + milliseconds{980}, kWhenDue));
  EXPECT_TRUE(ledger_.wants_own(asked_at() + milliseconds{1000}, kWhenDue)) << "it was wrong";
}

TEST_F(PassthroughLedgerWithOwnTest, AsksBeforeSomethingWorseIfItWasNotAskedJustNow) {
  note(PassthroughChange::kGrowth);
  sample(100_MiB + 2_MiB);
  ledger_.begin_own(now_);
  EXPECT_FALSE(ledger_.wants_own(now_ + milliseconds{99}, kBeforeWorse));
  EXPECT_TRUE(ledger_.wants_own(now_ + milliseconds{100}, kBeforeWorse));
}

TEST_F(PassthroughLedgerWithOwnTest, DoesNotAskAnyMoreWhereItWasNotToldThreeTimesInARow) {
  note(PassthroughChange::kGrowth);
  sample(100_MiB + 2_MiB);
  ledger_.miss_own();
  ledger_.miss_own();
  settle(42_MiB, 102_MiB);
  note(PassthroughChange::kGrowth);
  sample(100_MiB + 4_MiB);
  ledger_.miss_own();
  ledger_.miss_own();
  EXPECT_TRUE(ledger_.wants_own(now_, kBeforeRefusal));
  ledger_.miss_own();
  EXPECT_FALSE(ledger_.wants_own(now_, kBeforeRefusal));
}

TEST_F(PassthroughLedgerWithOwnTest, AsksWhetherGrowthBesideItsFreesIsANeighbours) {
  allocate(200_MiB);
  sample(300_MiB);
  note(PassthroughChange::kFree);
  sample(310_MiB);
  EXPECT_EQ(ledger_.bytes(), 200_MiB);
  EXPECT_TRUE(ledger_.wants_own(now_, kBeforeRefusal));
}

TEST_F(PassthroughLedgerWithOwnTest, IsQuietWhereNothingBegan) {
  const auto mark = ledger_.quiet_mark();
  ASSERT_TRUE(mark.has_value());
  sample(110_MiB);
  EXPECT_EQ(ledger_.quiet_mark(), mark);
  ledger_.begin_change(PassthroughChange::kFree);
  EXPECT_FALSE(ledger_.quiet_mark().has_value());
  ledger_.end_change(PassthroughChange::kFree);
  const auto next = ledger_.quiet_mark();
  EXPECT_TRUE(next.has_value() && next != mark);
  ledger_.begin_allocation(1_MiB);
  EXPECT_FALSE(ledger_.quiet_mark().has_value());
  ledger_.end_allocation(1_MiB, true);
  ledger_.begin_foreseen(1_MiB);
  EXPECT_FALSE(ledger_.quiet_mark().has_value());
  ledger_.end_foreseen(1_MiB, true);
  EXPECT_TRUE(ledger_.quiet_mark() && ledger_.quiet_mark() != next);
}

TEST_F(PassthroughLedgerWithOwnTest, GuessesOnWhereItDidSomethingMeanwhile) {
  note(PassthroughChange::kGrowth);
  sample(400_MiB);
  ledger_.begin_own(now_);
  sample(400_MiB);
  EXPECT_TRUE(ledger_.settle(50_MiB, 400_MiB, false));
  EXPECT_EQ(ledger_.bytes(), 10_MiB);
  EXPECT_TRUE(ledger_.wants_own(now_, kBeforeRefusal));
}

TEST_F(PassthroughLedgerTest, ForgetsWhatWasForeseenInVain) {
  ledger_.begin_foreseen(80_MiB);
  ledger_.end_foreseen(80_MiB, /*taken=*/false);
  EXPECT_EQ(ledger_.bytes(), Bytes{});
  EXPECT_EQ(ledger_.reserved(), 64_MiB);
}

TEST_F(PassthroughLedgerTest, NeverCountsBelowZeroWhatIsForeseenInVainDuringASample) {
  std::atomic<bool> is_over{false};
  std::thread other([&] {
    while (!is_over.load()) {
      ledger_.begin_foreseen(1_MiB);
      ledger_.end_foreseen(1_MiB, /*taken=*/false);
    }
  });
  Bytes most;
#ifdef SUPERPIPE_SANITIZES_THREAD
  constexpr int kSamples = 500'000;  // each takes twenty times as long
#else
  constexpr int kSamples = 5'000'000;
#endif
  for (int i = 0; i < kSamples; ++i) {
    sample(100_MiB);
    most = std::max(most, ledger_.bytes());
  }
  is_over = true;
  other.join();
  EXPECT_LE(most, 1_MiB);
  EXPECT_EQ(ledger_.bytes(), Bytes{});
}

TEST_F(PassthroughLedgerTest, AdmitsNothingInTheRoomOfWhatIsForeseen) {
  ledger_.begin_foreseen(1000_MiB);
  EXPECT_TRUE(ledger_.admits(24_MiB));
  EXPECT_FALSE(ledger_.admits(25_MiB));
  ledger_.end_foreseen(1000_MiB, /*taken=*/true);
  EXPECT_FALSE(ledger_.admits(25_MiB));
}

TEST_F(PassthroughLedgerTest, GuessesTheBlocksThatTheDriverHasTaken) {
  allocate(9_MiB);
  EXPECT_EQ(ledger_.likely(), 10_MiB) << "whole blocks";
  sample(100_MiB + 12_MiB);
  EXPECT_EQ(ledger_.likely(), 12_MiB);
  allocate(2_MiB);
  EXPECT_EQ(ledger_.likely(), 12_MiB) << "it fits what was there";
  allocate(2_MiB);
  EXPECT_EQ(ledger_.likely(), 14_MiB);
  note(PassthroughChange::kFree);
  sample(100_MiB + 4_MiB);
  EXPECT_EQ(ledger_.likely(), 4_MiB) << "the rest was freed";
}

TEST_F(PassthroughLedgerTest, KeepsWhatIsAllocatedWhileTheDeviceIsAsked) {
  allocate(10_MiB);
  const auto begun = ledger_.begin_sample();
  allocate(20_MiB);  // the device may have answered before or after it
  ledger_.end_sample(begun, 110_MiB, now_);
  EXPECT_EQ(ledger_.bytes(), 30_MiB);
}

TEST_F(PassthroughLedgerTest, KeepsAllWhenTheDeviceDoesNotAnswer) {
  allocate(10_MiB);
  note(PassthroughChange::kFree);
  ledger_.give_up_sample(ledger_.begin_sample(), now_);
  EXPECT_EQ(ledger_.bytes(), 10_MiB);
  EXPECT_FALSE(note(PassthroughChange::kFree)) << "it is still to be looked at";
}

TEST_F(PassthroughLedgerTest, AdmitsWhatTheWholeBudgetHolds) {
  EXPECT_TRUE(ledger_.admits(1_GiB));
  EXPECT_FALSE(ledger_.admits(1_GiB + Bytes{1}));
  allocate(1_GiB - 10_MiB);
  EXPECT_TRUE(ledger_.admits(10_MiB));
  EXPECT_FALSE(ledger_.admits(11_MiB));
  note(PassthroughChange::kFree);
  sample(100_MiB + 24_MiB);
  EXPECT_TRUE(ledger_.admits(1000_MiB));
  EXPECT_FALSE(ledger_.admits(1001_MiB));
}

TEST_F(PassthroughLedgerTest, AdmitsEverythingWithoutABudget) {
  PassthroughLedger ledger(std::nullopt, 64_MiB, 2_MiB);
  ledger.begin_allocation(1_MiB);
  EXPECT_FALSE(ledger.end_allocation(1_MiB, true)) << "nothing depends on a sample at once";
  ledger.begin_allocation(1024_GiB);
  (void)ledger.end_allocation(1024_GiB, true);
  EXPECT_TRUE(ledger.admits(1024_GiB));
  EXPECT_EQ(ledger.reserved(), ledger.bytes()) << "there is nothing to keep headroom in";
}

TEST_F(PassthroughLedgerTest, ChargesNobodyWithTheMemoryOfAnotherProcess) {
  allocate(50_MiB);
  sample(150_MiB);
  for (std::uint64_t i = 1; i <= 16; ++i) sample(150_MiB + Bytes{i << 29});
  EXPECT_EQ(ledger_.bytes(), 50_MiB) << "it grew in steps while this process did nothing";
  EXPECT_TRUE(ledger_.admits(900_MiB));
  allocate(10_MiB);
  sample(160_MiB + 8_GiB);
  EXPECT_EQ(ledger_.bytes(), 60_MiB);
  sample(160_MiB);
  EXPECT_EQ(ledger_.bytes(), 60_MiB) << "it has ended";
  sample(90_MiB);
  EXPECT_EQ(ledger_.bytes(), 60_MiB) << "and what was there at the start has shrunk";
}

TEST_F(PassthroughLedgerTest, ChargesNotedGrowthUpToWhatNobodyCountsInAProcess) {
  note(PassthroughChange::kGrowth);
  sample(100_MiB + 300_MiB);
  EXPECT_EQ(ledger_.bytes(), 300_MiB);
  sample(100_MiB + 400_MiB);
  EXPECT_EQ(ledger_.bytes(), 300_MiB) << "nothing was noted";
  note(PassthroughChange::kGrowth);
  sample(100_MiB + 400_MiB + 8_GiB);
  EXPECT_EQ(ledger_.bytes(), 1_GiB) << "no code is larger";
  note(PassthroughChange::kGrowth);
  sample(100_MiB + 400_MiB + 9_GiB);
  EXPECT_EQ(ledger_.bytes(), 1_GiB) << "in all";
}

TEST_F(PassthroughLedgerTest, ChargesRoundingWithCountedAllocationsOnly) {
  allocate(1_MiB);
  sample(100_MiB + 32_MiB);
  EXPECT_EQ(ledger_.bytes(), 32_MiB) << "a pool that grew";
  allocate(1_MiB);
  sample(100_MiB + 1_GiB);
  EXPECT_EQ(ledger_.bytes(), 66_MiB) << "2 MiB, and no more than 64 MiB of rounding";
  allocate(1_MiB);
  sample(100_MiB + 2_GiB);
  EXPECT_EQ(ledger_.bytes(), 67_MiB);
}

// Loaded code leaves room for what allocations are rounded up to.
TEST_F(PassthroughLedgerTest, ChargesRoundingBesideLoadedCode) {
  note(PassthroughChange::kGrowth);
  sample(100_MiB + 300_MiB);
  allocate(1_MiB);
  sample(100_MiB + 332_MiB);
  EXPECT_EQ(ledger_.bytes(), 332_MiB) << "a pool took a chunk of 32 MiB";
  allocate(1_MiB);
  sample(100_MiB + 432_MiB);
  EXPECT_EQ(ledger_.bytes(), 300_MiB + 64_MiB + 2_MiB) << "a neighbour grew";
}

// A pool gives back at the next synchronisation what was freed at once.
TEST_F(PassthroughLedgerTest, TakesADropOneSampleAfterAFreeForItsOwn) {
  allocate(500_MiB);
  sample(600_MiB);
  note(PassthroughChange::kFree);
  sample(600_MiB);
  sample(400_MiB);
  EXPECT_EQ(ledger_.bytes(), 300_MiB);
  sample(350_MiB);
  EXPECT_EQ(ledger_.bytes(), 300_MiB);
}

TEST_F(PassthroughLedgerTest, IsNotDueSoonAfterADeviceThatDidNotAnswer) {
  note(PassthroughChange::kFree);
  ledger_.give_up_sample(ledger_.begin_sample(), now_);
  EXPECT_FALSE(ledger_.is_due(now_ + milliseconds{999}));
  EXPECT_TRUE(ledger_.is_due(now_ + milliseconds{1000}));
}

TEST_F(PassthroughLedgerTest, IsNotDueSoonAfterItWasPutOff) {
  note(PassthroughChange::kFree);
  sample(100_MiB);
  now_ += milliseconds{5000};
  EXPECT_TRUE(ledger_.is_due(now_));
  ledger_.put_off_sample(now_);
  EXPECT_FALSE(ledger_.is_due(now_ + milliseconds{999}));
  EXPECT_TRUE(ledger_.is_due(now_ + milliseconds{1000}));
}

// A call of the driver may last for many samples, and take or free memory at any moment of it.
TEST_F(PassthroughLedgerTest, ChargesWhatComesInTheMidstOfALongCall) {
  ledger_.begin_change(PassthroughChange::kGrowth);
  for (int i = 0; i < 5; ++i) sample(100_MiB);
  sample(400_MiB);
  EXPECT_TRUE(ledger_.end_change(PassthroughChange::kGrowth));
  sample(400_MiB);
  EXPECT_EQ(ledger_.bytes(), 300_MiB);
}

TEST_F(PassthroughLedgerTest, TakesEachStepOfALongFreeForItsOwn) {
  allocate(500_MiB);
  sample(600_MiB);
  ledger_.begin_change(PassthroughChange::kFree);
  sample(600_MiB);
  sample(500_MiB);
  sample(200_MiB);
  (void)ledger_.end_change(PassthroughChange::kFree);
  sample(200_MiB);
  EXPECT_EQ(ledger_.bytes(), 100_MiB);
}

TEST_F(PassthroughLedgerTest, ChargesAChangeThatComesAndGoesWhileTheDeviceIsAsked) {
  const auto begun = ledger_.begin_sample();
  note(PassthroughChange::kGrowth);
  ledger_.end_sample(begun, 150_MiB, now_);
  EXPECT_EQ(ledger_.bytes(), 50_MiB);
}

// What a neighbour took while code was loaded goes again with the neighbour.
TEST_F(PassthroughLedgerTest, TakesADropFromWhatNobodyCountedFirst) {
  allocate(50_MiB);
  note(PassthroughChange::kGrowth);
  sample(100_MiB + 50_MiB + 500_MiB);
  EXPECT_EQ(ledger_.bytes(), 550_MiB);
  sample(100_MiB + 50_MiB + 5_MiB);
  EXPECT_EQ(ledger_.bytes(), 55_MiB);
  sample(120_MiB);
  EXPECT_EQ(ledger_.bytes(), 50_MiB) << "what was counted stays";
}

// A neighbour that grows all the time, while this process allocates and frees in each interval.
TEST_F(PassthroughLedgerTest, IsChargedALimitedAmountForAGrowingNeighbour) {
  Bytes used = 102_MiB;
  for (int i = 0; i < 128; ++i) {
    allocate(64_KiB);
    note(PassthroughChange::kLateFree);
    sample(used += 60_MiB);
  }
  EXPECT_LE(ledger_.bytes(), 64_MiB + 8_MiB);
}

TEST_F(PassthroughLedgerTest, TakesADropForItsOwnOnlyAfterAFree) {
  allocate(500_MiB);
  sample(600_MiB);
  sample(560_MiB);
  EXPECT_EQ(ledger_.bytes(), 500_MiB) << "nothing was freed: others gave memory back";
  note(PassthroughChange::kFree);
  sample(460_MiB);
  EXPECT_EQ(ledger_.bytes(), 400_MiB);
  for (int i = 0; i < 1000; ++i) sample(460_MiB);
  sample(460_MiB + 8_GiB);
  sample(460_MiB);
  EXPECT_EQ(ledger_.bytes(), 400_MiB) << "a neighbour came and went";
}

TEST_F(PassthroughLedgerTest, TakesAnyDropForItsOwnOnceItFreedInStreamOrder) {
  allocate(500_MiB);
  sample(600_MiB);
  note(PassthroughChange::kLateFree);
  for (Bytes used = 600_MiB; used > 100_MiB; used -= 100_MiB) sample(used);
  EXPECT_EQ(ledger_.bytes(), 100_MiB) << "piece by piece, as the pool gives it back";
}

TEST_F(PassthroughLedgerTest, ChargesAnAllocationThatASampleFindsBeforeItIsCounted) {
  ledger_.begin_allocation(2_GiB);
  sample(100_MiB + 2_GiB);
  EXPECT_EQ(ledger_.bytes(), 2_GiB);
  EXPECT_TRUE(ledger_.end_allocation(2_GiB, true));
  sample(100_MiB + 2_GiB);
  EXPECT_EQ(ledger_.bytes(), 2_GiB);
}

TEST_F(PassthroughLedgerTest, CountsNothingForAnAllocationThatFailed) {
  ledger_.begin_allocation(2_GiB);
  EXPECT_FALSE(ledger_.end_allocation(2_GiB, false));
  EXPECT_EQ(ledger_.bytes(), Bytes{});
  sample(100_MiB + 2_GiB);
  EXPECT_EQ(ledger_.bytes(), Bytes{}) << "what is there now is another's";
}

TEST_F(PassthroughLedgerTest, ChargesWhatAHookCountedHoweverLarge) {
  allocate(8_GiB);
  sample(100_MiB + 8_GiB);
  EXPECT_EQ(ledger_.bytes(), 8_GiB);
}

TEST_F(PassthroughLedgerTest, AsksForASampleWhenHalfOfTheHeadroomIsUsed) {
  sample(100_MiB);
  EXPECT_FALSE(allocate(32_MiB));
  EXPECT_FALSE(ledger_.is_due(now_ + milliseconds{5}));
  EXPECT_TRUE(allocate(Bytes{512}));
  EXPECT_FALSE(ledger_.is_due(now_ + milliseconds{4})) << "not more often than that";
  EXPECT_TRUE(ledger_.is_due(now_ + milliseconds{5}));
}

TEST_F(PassthroughLedgerTest, SamplesLessOftenWhileNothingChanges) {
  for (int i = 0; i < 20; ++i) sample(100_MiB);
  EXPECT_FALSE(ledger_.is_due(now_ + milliseconds{999}));
  EXPECT_EQ(ledger_.until_due(now_), milliseconds{1000});
  EXPECT_TRUE(ledger_.is_due(now_ + milliseconds{1000}));
  allocate(33_MiB);
  EXPECT_EQ(ledger_.until_due(now_), milliseconds{5}) << "half of the headroom is used up";
  EXPECT_FALSE(allocate(30_MiB)) << "only crossing another half wakes anybody";
  EXPECT_TRUE(allocate(2_MiB));
  for (int i = 0; i < 20; ++i) sample(165_MiB);
  EXPECT_EQ(ledger_.until_due(now_), milliseconds{1000});
  EXPECT_TRUE(note(PassthroughChange::kFree));
  EXPECT_FALSE(note(PassthroughChange::kFree)) << "only the first wakes anybody";
  EXPECT_EQ(ledger_.until_due(now_), milliseconds{5});
  EXPECT_TRUE(ledger_.is_due(now_ + milliseconds{5}));
  sample(165_MiB);
  EXPECT_EQ(ledger_.until_due(now_), milliseconds{5}) << "what is freed in stream order goes later";
}

}  // namespace
}  // namespace superpipe
