// The arithmetic of a budget, without a device.
#include "residency/room/device_ledger.h"

#include <gtest/gtest.h>

namespace superpipe::testing {
namespace {

/// A ledger with a limit of ten pages.
class DeviceLedgerTest : public ::testing::Test {
 protected:
  static constexpr Bytes pages(std::uint64_t n) { return n * 4_KiB; }

  DeviceLedgerTest() { ledger_.set_limit(pages(10), true); }

  void create(std::uint64_t n) {
    ledger_.begin_creation(pages(n));
    ledger_.end_creation(pages(n), true);
  }
  void destroy(std::uint64_t n) {
    ledger_.begin_destruction(pages(n));
    ledger_.end_destruction(pages(n), true);
  }

  DeviceLedger ledger_;
};

TEST_F(DeviceLedgerTest, AdmitsPagesUpToExactlyItsLimit) {
  EXPECT_TRUE(ledger_.admits(pages(10)));
  EXPECT_FALSE(ledger_.admits(pages(10) + Bytes{1}));
  create(7);
  EXPECT_TRUE(ledger_.admits(pages(3)));
  EXPECT_FALSE(ledger_.admits(pages(3) + Bytes{1}));
  create(3);
  EXPECT_TRUE(ledger_.admits(Bytes{}));
  EXPECT_FALSE(ledger_.admits(Bytes{1}));
  EXPECT_TRUE(ledger_.is_within_limit());
}

TEST_F(DeviceLedgerTest, AdmitsNoSizeThatWouldOverflow) {
  create(1);
  EXPECT_FALSE(ledger_.admits(Bytes{~std::uint64_t{0}}));
}

TEST_F(DeviceLedgerTest, RemembersWhetherItsLimitIsAPromise) {
  EXPECT_TRUE(ledger_.is_hard());
  ledger_.set_limit(pages(3), false);
  EXPECT_FALSE(ledger_.is_hard());
  EXPECT_EQ(ledger_.limit(), pages(3));
}

TEST_F(DeviceLedgerTest, GivesNobodyTheRoomOfAPageThatIsBeingCreated) {
  ledger_.begin_creation(pages(8));
  EXPECT_EQ(ledger_.pages(), pages(8));
  EXPECT_FALSE(ledger_.admits(pages(3)));
  EXPECT_EQ(ledger_.obtainable(Bytes{}), pages(2));
}

TEST_F(DeviceLedgerTest, GivesTheRoomBackWhenACreationFails) {
  ledger_.begin_creation(pages(8));
  ledger_.end_creation(pages(8), false);
  EXPECT_EQ(ledger_.pages(), Bytes{});
  EXPECT_TRUE(ledger_.admits(pages(10)));
}

TEST_F(DeviceLedgerTest, CountsAPageUntilItIsDestroyed) {
  create(8);
  ledger_.begin_destruction(pages(8));
  EXPECT_EQ(ledger_.pages(), pages(8)) << "the device still holds it";
  EXPECT_FALSE(ledger_.admits(pages(3)));
  EXPECT_TRUE(ledger_.expects_pages()) << "its room will come";
  ledger_.end_destruction(pages(8), true);
  EXPECT_EQ(ledger_.pages(), Bytes{});
  EXPECT_FALSE(ledger_.expects_pages());
}

TEST_F(DeviceLedgerTest, KeepsCountingAPageWhoseDestructionFailed) {
  create(8);
  ledger_.begin_destruction(pages(8));
  ledger_.end_destruction(pages(8), false);
  EXPECT_EQ(ledger_.pages(), pages(8));
  EXPECT_FALSE(ledger_.expects_pages()) << "nobody may wait for its room";
  EXPECT_FALSE(ledger_.is_moving());
}

TEST_F(DeviceLedgerTest, IsMovingWhileAnyPageIsCreatedOrDestroyed) {
  create(4);
  EXPECT_FALSE(ledger_.is_moving());
  ledger_.begin_creation(pages(1));
  ledger_.begin_destruction(pages(4));
  ledger_.end_creation(pages(1), true);
  EXPECT_TRUE(ledger_.is_moving()) << "the other one is still being destroyed";
  ledger_.end_destruction(pages(4), true);
  EXPECT_FALSE(ledger_.is_moving());
}

TEST_F(DeviceLedgerTest, ExceedsALimitThatShrinksBelowItsPages) {
  create(8);
  EXPECT_EQ(ledger_.excess(), Bytes{});
  ledger_.set_limit(pages(5), true);
  EXPECT_FALSE(ledger_.is_within_limit());
  EXPECT_EQ(ledger_.excess(), pages(3));
  EXPECT_FALSE(ledger_.admits(Bytes{}));
  destroy(3);
  EXPECT_TRUE(ledger_.is_within_limit());
  EXPECT_EQ(ledger_.excess(), Bytes{});
}

TEST_F(DeviceLedgerTest, OffersFetchesWhatIsReadyAndWhatTheLimitLeaves) {
  create(8);
  EXPECT_EQ(ledger_.obtainable(Bytes{}), pages(2));
  EXPECT_EQ(ledger_.obtainable(pages(3)), pages(5));
}

TEST_F(DeviceLedgerTest, OffersFetchesNothingThatAShrunkenLimitNeeds) {
  create(8);
  ledger_.set_limit(pages(6), true);
  EXPECT_EQ(ledger_.obtainable(pages(3)), pages(1)) << "two of the ready pages have to go";
  EXPECT_EQ(ledger_.obtainable(pages(1)), Bytes{});
}

TEST_F(DeviceLedgerTest, ExpectsTheVacatingAndThePromisedPages) {
  create(8);
  EXPECT_FALSE(ledger_.expects_pages());
  ledger_.promise(pages(2));
  EXPECT_TRUE(ledger_.expects_pages());
  ledger_.begin_vacating(pages(1));
  EXPECT_EQ(ledger_.coming(pages(3)), pages(6));
  ledger_.withdraw(pages(2));
  EXPECT_TRUE(ledger_.expects_pages()) << "one is still vacating";
  EXPECT_EQ(ledger_.coming(Bytes{}), pages(1));
  ledger_.end_vacating(pages(1));
  EXPECT_FALSE(ledger_.expects_pages());
  EXPECT_EQ(ledger_.coming(pages(3)), pages(3));
}

TEST_F(DeviceLedgerTest, CountsWhatIsVacatedAsRoomOnlyWhenItsPagesAreReady) {
  create(10);
  ledger_.begin_vacating(pages(4));
  ledger_.promise(pages(2));
  EXPECT_EQ(ledger_.obtainable(Bytes{}), Bytes{});
  EXPECT_FALSE(ledger_.admits(Bytes{1}));
}

TEST_F(DeviceLedgerTest, IsUnderPressureOnlyWhenNotAllLiveBuffersFit) {
  ledger_.begin_life(pages(6), Bytes{1});
  ledger_.begin_life(pages(4), Bytes{1});
  EXPECT_FALSE(ledger_.is_under_pressure()) << "they fit exactly";
  ledger_.begin_life(pages(1), Bytes{1});
  EXPECT_TRUE(ledger_.is_under_pressure());
  ledger_.end_life(pages(6), Bytes{1});
  EXPECT_FALSE(ledger_.is_under_pressure());
  ledger_.set_limit(pages(4), true);
  EXPECT_TRUE(ledger_.is_under_pressure()) << "the limit shrank";
}

TEST_F(DeviceLedgerTest, TellsWhatWasAskedForFromWhatItsPagesTake) {
  ledger_.begin_life(pages(2), Bytes{5000});
  ledger_.begin_life(pages(1), Bytes{7});
  EXPECT_EQ(ledger_.live(), pages(3));
  EXPECT_EQ(ledger_.managed(), Bytes{5007});
  ledger_.end_life(pages(2), Bytes{5000});
  EXPECT_EQ(ledger_.live(), pages(1));
  EXPECT_EQ(ledger_.managed(), Bytes{7});
}

TEST_F(DeviceLedgerTest, RemembersTheMostThatWasAskedFor) {
  ledger_.begin_life(pages(8), Bytes{8});
  ledger_.end_life(pages(8), Bytes{8});
  ledger_.begin_life(pages(9), Bytes{3});
  EXPECT_EQ(ledger_.peak_managed(), Bytes{8});
}

TEST_F(DeviceLedgerTest, RemembersTheMostThatPagesHadPastTheEndsOfBuffers) {
  ledger_.begin_life(pages(2), Bytes{pages(2).count() - 5});
  ledger_.begin_life(pages(1), Bytes{pages(1).count() - 7});
  ledger_.end_life(pages(2), Bytes{pages(2).count() - 5});
  ledger_.begin_life(pages(4), pages(4));
  EXPECT_EQ(ledger_.peak_padding(), Bytes{12});
}

TEST_F(DeviceLedgerTest, RemembersTheMostThatPagesAndPassThroughTookTogether) {
  create(6);
  ledger_.note_sample(pages(0), pages(1));
  destroy(4);
  ledger_.note_sample(pages(1), pages(1));
  ledger_.note_sample(pages(1), pages(4));
  EXPECT_EQ(ledger_.peak_device(pages(4)), pages(7))
      << "6 + 1, and not 6 + 4: those were not there at once";
  ledger_.note_sample(pages(4), pages(6));
  EXPECT_EQ(ledger_.peak_device(pages(6)), pages(8));
}

TEST_F(DeviceLedgerTest, CountsWhatASampleFindsBesideThePagesSinceTheLastOne) {
  create(6);
  ledger_.note_peak();
  destroy(4);
  ledger_.note_sample(pages(0), pages(3));
  EXPECT_EQ(ledger_.peak_device(pages(3)), pages(9)) << "it may have come before the pages went";
  create(1);
  ledger_.note_peak();
  EXPECT_EQ(ledger_.peak_device(pages(8)), pages(11)) << "what no sample has found yet";
  ledger_.note_sample(pages(3), pages(3));
  EXPECT_EQ(ledger_.peak_device(pages(3)), pages(9)) << "it was less";
}

}  // namespace
}  // namespace superpipe::testing
