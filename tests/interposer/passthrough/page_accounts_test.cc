#include "interposer/passthrough/page_accounts.h"

#include <gtest/gtest.h>

namespace superpipe {
namespace {

class PageAccountsTest : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kHandle = 7;
  static constexpr std::uint64_t kAddress = 0x10000000;

  void release(std::uint64_t handle) { (void)accounts_.take_reference(handle); }
  void unmap(std::uint64_t address, Bytes size) { (void)accounts_.take_mappings(address, size); }

  Bytes freed_;
  PageAccounts accounts_{[this](Bytes size) { freed_ += size; }};
};

TEST_F(PageAccountsTest, FreesUnmappedPagesAtTheirRelease) {
  accounts_.create(kHandle, 4_MiB);
  release(kHandle);
  EXPECT_EQ(freed_, 4_MiB);
}

TEST_F(PageAccountsTest, FreesReleasedPagesWhenTheirLastMappingGoes) {
  accounts_.create(kHandle, 4_MiB);
  accounts_.map(kAddress, 2_MiB, kHandle);
  accounts_.map(kAddress + (2 << 20), 2_MiB, kHandle);
  release(kHandle);
  EXPECT_EQ(freed_, Bytes{});
  unmap(kAddress, 2_MiB);
  EXPECT_EQ(freed_, Bytes{});
  unmap(kAddress + (2 << 20), 2_MiB);
  EXPECT_EQ(freed_, 4_MiB);
}

TEST_F(PageAccountsTest, FreesMappedPagesAtTheirReleaseAfterTheUnmap) {
  accounts_.create(kHandle, 4_MiB);
  accounts_.map(kAddress, 4_MiB, kHandle);
  unmap(kAddress, 4_MiB);
  EXPECT_EQ(freed_, Bytes{});
  release(kHandle);
  EXPECT_EQ(freed_, 4_MiB);
}

TEST_F(PageAccountsTest, UnmapsAllMappingsOfARange) {
  accounts_.create(1, 2_MiB);
  accounts_.create(2, 4_MiB);
  accounts_.map(kAddress, 2_MiB, 1);
  accounts_.map(kAddress + (2 << 20), 4_MiB, 2);
  release(1);
  release(2);
  unmap(kAddress, 6_MiB);
  EXPECT_EQ(freed_, 6_MiB);
}

TEST_F(PageAccountsTest, CountsRetainedPagesUntilTheLastReferenceGoes) {
  accounts_.create(kHandle, 4_MiB);
  accounts_.map(kAddress, 4_MiB, kHandle);
  release(kHandle);
  accounts_.retain(kHandle + 1, kAddress + 100);
  unmap(kAddress, 4_MiB);
  EXPECT_EQ(freed_, Bytes{});
  release(kHandle + 1);
  EXPECT_EQ(freed_, 4_MiB);
}

TEST_F(PageAccountsTest, DoesNotRetainWhatIsMappedElsewhere) {
  accounts_.create(kHandle, 4_MiB);
  accounts_.map(kAddress, 4_MiB, kHandle);
  accounts_.retain(kHandle + 1, kAddress - 1);
  accounts_.retain(kHandle + 1, kAddress + (4 << 20));
  EXPECT_EQ(accounts_.take_reference(kHandle + 1), nullptr);
}

TEST_F(PageAccountsTest, KeepsWhatIsPutBack) {
  accounts_.create(kHandle, 4_MiB);
  accounts_.map(kAddress, 4_MiB, kHandle);
  accounts_.put_back(kHandle, accounts_.take_reference(kHandle));
  accounts_.put_back(accounts_.take_mappings(kAddress, 4_MiB));
  unmap(kAddress, 4_MiB);
  EXPECT_EQ(freed_, Bytes{});
  release(kHandle);
  EXPECT_EQ(freed_, 4_MiB);
}

TEST_F(PageAccountsTest, TakesAHandleThatComesAgainWhileTheOldPagesAreMapped) {
  accounts_.create(kHandle, 2_MiB);
  accounts_.map(kAddress, 2_MiB, kHandle);
  release(kHandle);
  accounts_.create(kHandle, 8_MiB);
  release(kHandle);
  EXPECT_EQ(freed_, 8_MiB);
  unmap(kAddress, 2_MiB);
  EXPECT_EQ(freed_, 10_MiB);
}

TEST_F(PageAccountsTest, NeverGivesBackWhatIsKeptForGood) {
  accounts_.create(kHandle, 4_MiB);
  accounts_.keep_for_good(kHandle);
  release(kHandle);
  EXPECT_EQ(freed_, Bytes{});
}

TEST_F(PageAccountsTest, IgnoresPagesThatItDoesNotKnow) {
  accounts_.map(kAddress, 4_MiB, kHandle);
  release(kHandle);
  unmap(kAddress, 4_MiB);
  EXPECT_EQ(freed_, Bytes{});
}

}  // namespace
}  // namespace superpipe
