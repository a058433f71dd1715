// What is left to the driver: what is counted, what a sample says, and what the budget keeps free.
#include "residency/passthrough_ledger.h"

#include <gtest/gtest.h>

namespace superpipe {
namespace {

using std::chrono::milliseconds;

class PassthroughLedgerTest : public ::testing::Test {
 protected:
  /// A device that held 100 MiB before; a budget of 1 GiB with a headroom of 64 MiB.
  PassthroughLedgerTest() { ledger_.start(100_MiB); }

  /// The device says that it holds `used` besides our pages.
  bool sample(Bytes used) {
    return ledger_.end_sample(ledger_.begin_sample(), used, now_ += milliseconds{10});
  }

  PassthroughLedger ledger_{1_GiB, 64_MiB, 2_MiB};
  PassthroughLedger::TimePoint now_{std::chrono::hours{1}};
};

TEST_F(PassthroughLedgerTest, ReservesTheHeadroomAtFirst) {
  EXPECT_EQ(ledger_.bytes(), Bytes{});
  EXPECT_EQ(ledger_.reserved(), 64_MiB);
}

TEST_F(PassthroughLedgerTest, ReservesMoreOnlyWhenGrowthExceedsTheHeadroom) {
  ledger_.note_allocation(40_MiB);
  EXPECT_EQ(ledger_.bytes(), 40_MiB);
  EXPECT_EQ(ledger_.reserved(), 64_MiB);
  ledger_.note_allocation(40_MiB);
  EXPECT_EQ(ledger_.reserved(), 80_MiB);
}

TEST_F(PassthroughLedgerTest, TakesASampleForTheTruth) {
  ledger_.note_allocation(40_MiB);
  EXPECT_TRUE(sample(100_MiB + 30_MiB)) << "10 MiB of it have been freed";
  EXPECT_EQ(ledger_.bytes(), 30_MiB);
  EXPECT_EQ(ledger_.reserved(), 94_MiB);
  EXPECT_TRUE(sample(100_MiB + 50_MiB)) << "code, which no hook counts";
  EXPECT_EQ(ledger_.bytes(), 50_MiB);
  EXPECT_FALSE(sample(100_MiB + 50_MiB));
}

TEST_F(PassthroughLedgerTest, GuessesTheBlocksThatTheDriverHasTaken) {
  ledger_.note_allocation(9_MiB);
  EXPECT_EQ(ledger_.likely(), 10_MiB) << "whole blocks";
  sample(100_MiB + 12_MiB);
  EXPECT_EQ(ledger_.likely(), 12_MiB);
  ledger_.note_allocation(2_MiB);
  EXPECT_EQ(ledger_.likely(), 12_MiB) << "it fits what was there";
  ledger_.note_allocation(2_MiB);
  EXPECT_EQ(ledger_.likely(), 14_MiB);
  sample(100_MiB + 4_MiB);
  EXPECT_EQ(ledger_.likely(), 4_MiB) << "the rest was freed";
}

TEST_F(PassthroughLedgerTest, KeepsWhatIsAllocatedWhileTheDeviceIsAsked) {
  ledger_.note_allocation(10_MiB);
  const auto begun = ledger_.begin_sample();
  ledger_.note_allocation(20_MiB);  // the device may have answered before or after it
  ledger_.end_sample(begun, 110_MiB, now_);
  EXPECT_EQ(ledger_.bytes(), 30_MiB);
}

TEST_F(PassthroughLedgerTest, KeepsAllWhenTheDeviceDoesNotAnswer) {
  ledger_.note_allocation(10_MiB);
  (void)ledger_.note_change();
  ledger_.give_up_sample(ledger_.begin_sample(), now_);
  EXPECT_EQ(ledger_.bytes(), 10_MiB);
  EXPECT_FALSE(ledger_.note_change()) << "it is still to be looked at";
}

TEST_F(PassthroughLedgerTest, AdmitsWhatTheWholeBudgetHolds) {
  EXPECT_TRUE(ledger_.admits(1_GiB));
  EXPECT_FALSE(ledger_.admits(1_GiB + Bytes{1}));
  ledger_.note_allocation(1_GiB - 10_MiB);
  EXPECT_TRUE(ledger_.admits(10_MiB));
  EXPECT_FALSE(ledger_.admits(11_MiB));
  sample(100_MiB + 24_MiB);
  EXPECT_TRUE(ledger_.admits(1000_MiB));
  EXPECT_FALSE(ledger_.admits(1001_MiB));
}

TEST_F(PassthroughLedgerTest, AdmitsEverythingWithoutABudget) {
  PassthroughLedger ledger(std::nullopt, 64_MiB, 2_MiB);
  ledger.note_allocation(1024_GiB);
  EXPECT_TRUE(ledger.admits(1024_GiB));
  EXPECT_EQ(ledger.reserved(), ledger.bytes()) << "there is nothing to keep headroom in";
}

TEST_F(PassthroughLedgerTest, ChargesNobodyWithTheMemoryOfAnotherProcess) {
  sample(150_MiB);
  sample(150_MiB + 8_GiB);  // no code is as large, and no hook counted it
  EXPECT_EQ(ledger_.bytes(), 50_MiB);
  sample(160_MiB + 8_GiB);
  EXPECT_EQ(ledger_.bytes(), 60_MiB);
  sample(90_MiB);  // it has ended, and more with it: what is left cannot be told from the context
  EXPECT_EQ(ledger_.bytes(), Bytes{});
  sample(95_MiB);
  EXPECT_EQ(ledger_.bytes(), 5_MiB);
}

TEST_F(PassthroughLedgerTest, ChargesWhatAHookCountedHoweverLarge) {
  ledger_.note_allocation(8_GiB);
  sample(100_MiB + 8_GiB);
  EXPECT_EQ(ledger_.bytes(), 8_GiB);
}

TEST_F(PassthroughLedgerTest, AsksForASampleWhenHalfOfTheHeadroomIsUsed) {
  sample(100_MiB);
  EXPECT_FALSE(ledger_.note_allocation(32_MiB));
  EXPECT_FALSE(ledger_.is_due(now_ + milliseconds{5}));
  EXPECT_TRUE(ledger_.note_allocation(Bytes{512}));
  EXPECT_FALSE(ledger_.is_due(now_ + milliseconds{4})) << "not more often than that";
  EXPECT_TRUE(ledger_.is_due(now_ + milliseconds{5}));
}

TEST_F(PassthroughLedgerTest, SamplesLessOftenWhileNothingChanges) {
  for (int i = 0; i < 20; ++i) sample(100_MiB);
  EXPECT_FALSE(ledger_.is_due(now_ + milliseconds{999}));
  EXPECT_EQ(ledger_.until_due(now_), milliseconds{1000});
  EXPECT_TRUE(ledger_.is_due(now_ + milliseconds{1000}));
  ledger_.note_allocation(33_MiB);
  EXPECT_EQ(ledger_.until_due(now_), milliseconds{5}) << "half of the headroom is used up";
  for (int i = 0; i < 20; ++i) sample(133_MiB);
  EXPECT_EQ(ledger_.until_due(now_), milliseconds{1000});
  EXPECT_TRUE(ledger_.note_change());
  EXPECT_FALSE(ledger_.note_change()) << "only the first wakes anybody";
  EXPECT_EQ(ledger_.until_due(now_), milliseconds{5});
  EXPECT_TRUE(ledger_.is_due(now_ + milliseconds{5}));
  sample(133_MiB);
  EXPECT_EQ(ledger_.until_due(now_), milliseconds{5}) << "what is freed in stream order goes later";
}

}  // namespace
}  // namespace superpipe
