// How many bytes pages may take, by budget, pass-through memory and other processes.
#include "residency/room/page_limit.h"

#include <gtest/gtest.h>

#include <utility>

#include "tests/residency/page_limit_fixture.h"

namespace superpipe::testing {
namespace {

class PageLimitTest : public PageLimitFixture {
 protected:
  /// What the device holds besides pages, of its eighteen pages.
  void note_device(std::uint64_t besides) REQUIRES(manager_lock) {
    limit_.note_device(limit_pages(18), limit_pages(besides), device_.now());
    limit_.follow_passthrough();
  }
};

TEST_F(PageLimitTest, IsTheBudgetWithoutTheHeadroom) {
  const ManagerLock lock(mutex_);
  EXPECT_EQ(ledger_.limit(), limit_pages(14));
  EXPECT_TRUE(ledger_.is_hard());
}

TEST_F(PageLimitTest, FollowsTheBudget) {
  const ManagerLock lock(mutex_);
  EXPECT_EQ(limit_.set_budget(limit_pages(10)), BudgetAnswer::kChanged);
  EXPECT_EQ(ledger_.limit(), limit_pages(8));
  EXPECT_EQ(limit_.set_budget(limit_pages(10)), BudgetAnswer::kChanged);
  EXPECT_EQ(limit_.budget_changes(), 1U);
  EXPECT_FALSE(limit_.is_lowered()) << "there are no pages";
}

TEST_F(PageLimitTest, ABudgetThatLeavesNoPageIsRefused) {
  const ManagerLock lock(mutex_);
  EXPECT_EQ(limit_.set_budget(limit_pages(2)), BudgetAnswer::kTooSmall);
  EXPECT_EQ(ledger_.limit(), limit_pages(14));
}

TEST_F(PageLimitTest, IsLoweredBelowThePagesUntilThatIsSaidToBeOver) {
  const ManagerLock lock(mutex_);
  make_live(7);
  EXPECT_EQ(limit_.set_budget(limit_pages(8)), BudgetAnswer::kChanged);
  EXPECT_EQ(ledger_.excess(), limit_pages(1));
  EXPECT_TRUE(limit_.is_lowered());
  EXPECT_TRUE(backing_.has_begun()) << "what leaves needs host memory";
  limit_.end_lowering();
  EXPECT_FALSE(limit_.is_lowered());
}

TEST_F(PageLimitTest, ABudgetForWhichHostMemoryIsShortChangesNothing) {
  const ManagerLock lock(mutex_);
  make_live(12);
  EXPECT_EQ(limit_.set_budget(limit_pages(3)), BudgetAnswer::kHostMemoryShort);
  EXPECT_EQ(passthrough_.budget(), limit_pages(16));
  EXPECT_EQ(ledger_.limit(), limit_pages(14));
  EXPECT_EQ(limit_.budget_changes(), 0U);
}

TEST_F(PageLimitTest, YieldsWhatOtherProcessesNeedAndTakesItBackForALaunch) {
  const ManagerLock lock(mutex_);
  note_device(8);
  EXPECT_EQ(ledger_.limit(), limit_pages(8)) << "eighteen, less eight and the headroom of two";
  EXPECT_TRUE(limit_.claim(limit_pages(12)));
  EXPECT_EQ(ledger_.limit(), limit_pages(12));
  EXPECT_FALSE(limit_.claim(limit_pages(12))) << "it has that already";
}

TEST_F(PageLimitTest, YieldsNothingThatHostMemoryIsTooShortFor) {
  const ManagerLock lock(mutex_);
  make_live(14);
  note_device(14);
  EXPECT_EQ(ledger_.limit(), limit_pages(14));
  const auto warnings = warnings_.take();
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_EQ(warnings[0].find("other processes need device memory"), 0U);
}

TEST_F(PageLimitTest, APolicyThatTakesTheOthersPlaceIsToldTheSame) {
  const ManagerLock lock(mutex_);
  ASSERT_EQ(limit_.set_budget(limit_pages(10)), BudgetAnswer::kChanged);
  PolicyEngine fresh{options_.policy};
  limit_.tell_new_policy(fresh);
  EXPECT_EQ(fresh.managed_limit(), policy_.managed_limit());
  policy_ = std::move(fresh);
  limit_.refresh();
  EXPECT_EQ(ledger_.limit(), limit_pages(8));
}

}  // namespace
}  // namespace superpipe::testing
