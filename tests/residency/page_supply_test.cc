// Where pages come from, in which order, and that all of them are counted within the limit.
#include "residency/pieces/page_supply.h"

#include <gtest/gtest.h>

#include "tests/residency/core_fixture.h"

namespace superpipe::testing {
namespace {

class PageSupplyTest : public CoreTest {
 protected:
  using CoreTest::CoreTest;
  using Terms = PageSupply::Terms;

  void set_limit(std::uint64_t pages) REQUIRES(manager_lock) {
    core_.ledger.set_limit(Bytes{pages * kGranule.count()}, true);
  }
  /// Whether a page of that many granules can be had now.
  bool acquires(std::uint64_t pages, Terms terms = Terms::kMayWait) REQUIRES(manager_lock) {
    const Bytes size{pages * kGranule.count()};
    const auto page = supply_.acquire(size, terms);
    if (!page.ok()) {
      EXPECT_EQ(page.status(), Status::kNotYet);
      return false;
    }
    EXPECT_EQ(page->size, size);
    return true;
  }

  PageSupply supply_{core_};
};

TEST_F(PageSupplyTest, CountsWhatItCreatesAndStopsAtTheLimit) {
  const ManagerLock lock(core_.mutex);
  set_limit(3);
  EXPECT_TRUE(acquires(2));
  EXPECT_FALSE(acquires(2));
  EXPECT_TRUE(acquires(1));
  EXPECT_FALSE(acquires(1));
  EXPECT_EQ(core_.ledger.pages(), 3 * kGranule);
  EXPECT_EQ(device_.device_bytes(), 3 * kGranule);
}

TEST_F(PageSupplyTest, ExceedsTheLimitOnlyWhenTold) {
  const ManagerLock lock(core_.mutex);
  set_limit(1);
  EXPECT_TRUE(acquires(1));
  EXPECT_TRUE(acquires(2, Terms::kOverLimit));
  EXPECT_EQ(core_.ledger.pages(), 3 * kGranule);
}

TEST_F(PageSupplyTest, PrefersAnIdlePageOfTheSizeToANewOne) {
  const ManagerLock lock(core_.mutex);
  make_idle_page(2);
  const int created = device_.calls(Call::kCreatePages);
  EXPECT_TRUE(acquires(2));
  EXPECT_EQ(device_.calls(Call::kCreatePages), created);
  EXPECT_EQ(core_.ledger.pages(), 2 * kGranule);
}

TEST_F(PageSupplyTest, HandsAnIdlePageOutWithTheWriteBackThatItWaitsFor) {
  const ManagerLock lock(core_.mutex);
  const EventRef writing = blocked_event();
  make_idle_page(1, writing);
  const auto page = supply_.acquire(kGranule, Terms::kMayWait);
  ASSERT_TRUE(page.ok());
  EXPECT_EQ(page->after, std::vector<EventRef>{writing});
}

// The program may allocate the cached buffer again, which need not be mapped then.
TEST_F(PageSupplyTest, DestroysIdlePagesThatAreRoomEnoughBeforeItStripsCachedBuffers) {
  const ManagerLock lock(core_.mutex);
  make_cached(1);
  make_idle_page(2);
  set_limit(3);
  EXPECT_TRUE(acquires(1));
  EXPECT_EQ(core_.cache.bytes(), kGranule);
  EXPECT_EQ(core_.pool->idle_bytes(), Bytes{});
}

TEST_F(PageSupplyTest, StripsNoMoreCachedBuffersThanMakeRoom) {
  const ManagerLock lock(core_.mutex);
  for (const std::uint64_t granules : {1, 2, 3, 5}) make_cached(granules);
  set_limit(11);
  EXPECT_TRUE(acquires(4));
  EXPECT_GE(core_.cache.bytes(), 5 * kGranule) << "no more than two went, or the largest";
}

TEST_F(PageSupplyTest, StripsACachedBufferWithPagesOfTheSizeBeforeOthers) {
  const ManagerLock lock(core_.mutex);
  for (const std::uint64_t granules : {1, 2, 3, 4, 5}) make_cached(granules);
  set_limit(15);
  EXPECT_TRUE(acquires(3));
  EXPECT_EQ(core_.cache.bytes(), 12 * kGranule);
  EXPECT_EQ(device_.calls(Call::kDestroyPages), 0);
}

TEST_F(PageSupplyTest, DestroysIdlePagesOfOtherSizesForANewOne) {
  const ManagerLock lock(core_.mutex);
  make_idle_page(2);
  set_limit(2);
  EXPECT_TRUE(acquires(1));
  EXPECT_TRUE(core_.pool->empty());
  EXPECT_EQ(core_.ledger.pages(), kGranule);
  EXPECT_EQ(device_.device_bytes(), kGranule);
}

TEST_F(PageSupplyTest, WaitsForAPageOfTheSizeThatComesBackSoonInsteadOfCreatingOne) {
  const ManagerLock lock(core_.mutex);
  const BufferId leaving = make_dirty(1);
  make_idle_page(2);
  set_limit(3);
  core_.tell_vacating({leaving, 0}, true);
  EXPECT_FALSE(acquires(1));
  EXPECT_EQ(core_.pool->idle_bytes(), 2 * kGranule);
  EXPECT_TRUE(acquires(1, Terms::kOverLimit));
  core_.tell_vacating({leaving, 0}, false);
  EXPECT_TRUE(acquires(1));
  EXPECT_EQ(core_.pool->idle_bytes(), Bytes{});
}

TEST_F(PageSupplyTest, CreatesAPageForThoseWhoDoNotComeAgain) {
  const ManagerLock lock(core_.mutex);
  const BufferId leaving = make_dirty(1);
  make_idle_page(2);
  set_limit(3);
  core_.tell_vacating({leaving, 0}, true);
  EXPECT_TRUE(acquires(1, Terms::kAtOnce));
  EXPECT_EQ(core_.pool->idle_bytes(), Bytes{});
  core_.tell_vacating({leaving, 0}, false);
}

TEST_F(PageSupplyTest, TakesThePagesOfCachedBuffersWhateverComesBackSoon) {
  const ManagerLock lock(core_.mutex);
  const BufferId leaving = make_dirty(1);
  make_cached(1);
  set_limit(2);
  core_.tell_vacating({leaving, 0}, true);
  EXPECT_TRUE(acquires(1));
  core_.tell_vacating({leaving, 0}, false);
}

TEST_F(PageSupplyTest, CreatesWhatFitsWhateverComesBackSoon) {
  const ManagerLock lock(core_.mutex);
  const BufferId leaving = make_dirty(1);
  set_limit(2);
  core_.tell_vacating({leaving, 0}, true);
  EXPECT_TRUE(acquires(1));
  core_.tell_vacating({leaving, 0}, false);
}

TEST_F(PageSupplyTest, AboveTheLimitIdlePagesAreGivenBackRatherThanUsed) {
  const ManagerLock lock(core_.mutex);
  make_dirty(2);
  make_idle_page(1);
  set_limit(2);
  EXPECT_FALSE(acquires(1));
  EXPECT_EQ(core_.ledger.pages(), 2 * kGranule);
}

TEST_F(PageSupplyTest, ReclaimsAllThatNoLiveBufferHoldsAndNothingElse) {
  const ManagerLock lock(core_.mutex);
  const BufferId live = make_dirty(1, 7);
  const BufferId cached = make_cached(2);
  const Address base = core_.buffers[cached].base;
  make_idle_page(1);
  while (supply_.reclaim_one()) {
  }
  EXPECT_EQ(core_.ledger.pages(), kGranule);
  EXPECT_EQ(device_.device_bytes(), kGranule);
  EXPECT_EQ(device_value(live), 7);
  // The stripped buffer is forgotten: its address and its id serve the next one.
  EXPECT_EQ(core_.arena->take(2 * kGranule), base);
  EXPECT_EQ(core_.buffers.create(), cached);
}

TEST_F(PageSupplyTest, AnIdlePageUnderAWriteBackIsNotDestroyed) {
  const ManagerLock lock(core_.mutex);
  make_idle_page(1, blocked_event());
  EXPECT_FALSE(supply_.reclaim_one());
  EXPECT_EQ(core_.pool->idle_bytes(), kGranule);
  EXPECT_EQ(core_.ledger.pages(), kGranule);
  EXPECT_FALSE(core_.ledger.expects_pages());
  unblock();
  EXPECT_TRUE(supply_.reclaim_one());
  EXPECT_EQ(core_.ledger.pages(), Bytes{});
}

TEST_F(PageSupplyTest, ABusyIdlePageDoesNotKeepAnotherFromBeingDestroyed) {
  const ManagerLock lock(core_.mutex);
  make_idle_page(2, blocked_event());
  make_idle_page(1);
  EXPECT_TRUE(supply_.reclaim_one());
  EXPECT_EQ(core_.pool->idle_bytes(), 2 * kGranule);
  EXPECT_FALSE(supply_.reclaim_one());
}

TEST_F(PageSupplyTest, ACachedBufferThatIsStillUsedKeepsItsPage) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_cached(1, blocked_event());
  EXPECT_FALSE(supply_.reclaim_one());
  EXPECT_EQ(core_.buffers[id].pieces[0].state(), PieceState::kIn);
  EXPECT_EQ(core_.cache.of(kGranule), std::vector<BufferId>{id});
  EXPECT_FALSE(core_.ledger.expects_pages());
  unblock();
  EXPECT_TRUE(supply_.reclaim_one());
  EXPECT_EQ(core_.cache.bytes(), Bytes{});
}

TEST_F(PageSupplyTest, ACachedBufferThatCannotBeUnmappedStaysTheOldest) {
  const ManagerLock lock(core_.mutex);
  const BufferId older = make_cached(1);
  const BufferId younger = make_cached(1);
  device_.fail(Call::kUnmap, 1, Status::kDeviceError);
  EXPECT_FALSE(supply_.reclaim_one());
  EXPECT_EQ(core_.cache.of(kGranule), (std::vector<BufferId>{older, younger}));
  EXPECT_EQ(core_.buffers[older].pieces[0].state(), PieceState::kIn);
  EXPECT_EQ(core_.counters.errors, 1U);
}

TEST_F(PageSupplyTest, ADeviceErrorLeavesNothingCounted) {
  const ManagerLock lock(core_.mutex);
  device_.fail(Call::kCreatePages, 1, Status::kDeviceError);
  EXPECT_EQ(supply_.acquire(kGranule, Terms::kMayWait).status(), Status::kDeviceError);
  EXPECT_EQ(core_.ledger.pages(), Bytes{});
  EXPECT_EQ(core_.counters.errors, 1U);
  EXPECT_TRUE(acquires(1));
}

TEST_F(PageSupplyTest, APageThatCannotBeDestroyedStaysCountedAndServesNobody) {
  const ManagerLock lock(core_.mutex);
  make_idle_page(1);
  device_.fail(Call::kDestroyPages, 1, Status::kDeviceError);
  EXPECT_FALSE(supply_.reclaim_one());
  EXPECT_EQ(core_.ledger.pages(), kGranule);
  EXPECT_EQ(core_.counters.errors, 1U);
  EXPECT_TRUE(core_.pool->empty());
  EXPECT_TRUE(core_.pool->take_untracked().has_value());
}

/// A device with room for two pages, far less than the budget.
class FullDeviceTest : public PageSupplyTest {
 protected:
  FullDeviceTest()
      : PageSupplyTest(options_of(1024), FakeDevice::Options{.capacity = 2 * kGranule}) {}
};

TEST_F(FullDeviceTest, IsAnErrorWhenNothingIsComingFree) {
  const ManagerLock lock(core_.mutex);
  make_dirty(2);
  EXPECT_EQ(supply_.acquire(kGranule, Terms::kMayWait).status(), Status::kOutOfDeviceMemory);
  EXPECT_EQ(core_.ledger.pages(), 2 * kGranule);
  EXPECT_EQ(core_.counters.errors, 0U);  // the caller's to tell
}

TEST_F(FullDeviceTest, IsAskedAgainWhenAnEvictionIsOnItsWay) {
  const ManagerLock lock(core_.mutex);
  make_dirty(2);
  core_.ledger.promise(2 * kGranule);
  EXPECT_FALSE(acquires(1));
}

TEST_F(FullDeviceTest, GetsPagesThatNoLiveBufferHoldsBack) {
  const ManagerLock lock(core_.mutex);
  make_cached(2);
  EXPECT_TRUE(acquires(1));
  EXPECT_EQ(device_.device_bytes(), kGranule);
}

}  // namespace
}  // namespace superpipe::testing
