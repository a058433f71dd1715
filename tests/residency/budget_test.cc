// A budget that another one replaces while the program runs, and what other processes take.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "residency/residency_manager.h"
#include "tests/residency/manager_fixture.h"

namespace superpipe::testing {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

class BudgetTest : public ManagerTest {
 protected:
  static constexpr std::uint64_t kDevicePages = 64;

  /// A manager on a device of kDevicePages pages, which says so.
  void make_on_small_device(const PolicyConfig& policy) {
    FakeDevice::Options device;
    device.capacity = device.total = Bytes{kDevicePages * kPage};
    make(policy, device);
  }
  /// A budget that is what there seemed to be, as without a flag.
  static PolicyConfig free_memory_of(std::uint64_t pages) {
    PolicyConfig policy = budget_of(pages, PolicyKind::kAuto);
    policy.budget_is_promise = false;
    return policy;
  }
  void load_buffers(int number, std::uint64_t pages = 1) {
    for (int i = 0; i < number; ++i) buffers_.push_back(load(pages, i + 1));
  }
  BudgetAnswer set_pages(std::uint64_t pages) { return manager_->set_budget(Bytes{pages * kPage}); }
  /// Lets worker, device and clock go on for at least `time`.
  void settle(std::chrono::milliseconds time = std::chrono::milliseconds{50}) {
    const auto end = device_->now() + time;
    while (device_->now() < end) {
      (void)manager_->run_worker_once();
      device_->drain();
    }
  }
  void run_pass() {
    for (const Address buffer : buffers_) ASSERT_EQ(launch({buffer}), Status::kOk);
  }
  [[nodiscard]] std::uint64_t pages() const { return device_->device_bytes().count() / kPage; }
  [[nodiscard]] std::uint64_t limit() const {
    return manager_->live_state().counters.managed_limit.count() / kPage;
  }
  /// Each buffer's bytes are what they were loaded with, and one more for each launch.
  void expect_contents(int launches) {
    for (std::size_t i = 0; i < buffers_.size(); ++i) {
      EXPECT_EQ(copy_out(buffers_[i], kPage), static_cast<int>(i) + 1 + launches) << i;
    }
  }

  std::vector<Address> buffers_;
};

TEST_F(BudgetTest, ShrinkingEvictsDownToTheNewBudgetWithoutALaunch) {
  make(budget_of(16, PolicyKind::kAuto));
  load_buffers(12);
  ASSERT_EQ(pages(), 12U);
  EXPECT_EQ(set_pages(5), BudgetAnswer::kChanged);
  EXPECT_EQ(limit(), 5U);
  settle();
  EXPECT_EQ(pages(), 5U);
  expect_contents(0);
}

TEST_F(BudgetTest, TheLiveStateTellsTheBytesOfAPassUnderAuto) {
  make(budget_of(6, PolicyKind::kAuto));
  load_buffers(12);
  for (int pass = 0; pass < 4; ++pass) run_pass();
  settle();
  const ResidencyManager::LiveState state = manager_->live_state();
  EXPECT_EQ(state.learned.layers, 12U) << "of a pass that was seen";
  EXPECT_EQ(state.learned.pass_bytes, Bytes{12 * kPage});
}

TEST_F(BudgetTest, TheLiveStateTellsWhichLayersAreThere) {
  make(budget_of(6, PolicyKind::kLru));
  load_buffers(12);
  EXPECT_EQ(manager_->live_state().learned.layers, 0U);
  for (int pass = 0; pass < 4; ++pass) run_pass();
  settle();
  const ResidencyManager::LiveState state = manager_->live_state();
  EXPECT_EQ(state.counters.launches, 48U);
  EXPECT_EQ(state.counters.managed_limit, Bytes{6 * kPage});
  EXPECT_EQ(state.counters.budget, Bytes{6 * kPage});
  EXPECT_EQ(state.live, Bytes{12 * kPage});
  EXPECT_LE(state.pages, Bytes{6 * kPage});
  EXPECT_EQ(state.host_limit, options_.host_limit);
  EXPECT_EQ(state.passes, manager_->stats().measured_passes.size());
  ASSERT_GT(state.passes, 0U);
  EXPECT_EQ(state.last_pass, manager_->stats().measured_passes.back());
  ASSERT_EQ(state.learned.layers, 12U);
  EXPECT_EQ(state.learned.pass_bytes, Bytes{12 * kPage});
  std::uint64_t there = 0;
  for (std::size_t layer = 0; layer < kShownLayers; ++layer) {
    EXPECT_TRUE(state.layer_percent[layer] == 0 || state.layer_percent[layer] == 100);
    if (state.layer_percent[layer] == 100) ++there;
  }
  EXPECT_EQ(there, state.pages.count() / kPage);
}

TEST_F(BudgetTest, ShrinkingEvictsThoughALaunchMayExceedTheBudget) {
  options_.overflow_allowed = true;
  make(budget_of(16, PolicyKind::kAuto));
  load_buffers(12);
  ASSERT_EQ(set_pages(5), BudgetAnswer::kChanged);
  settle();
  EXPECT_EQ(pages(), 5U);
}

TEST_F(BudgetTest, WhatWasFreeMemoryBecomesAPromise) {
  make(free_memory_of(16));
  load_buffers(12);
  ASSERT_EQ(set_pages(5), BudgetAnswer::kChanged);
  settle();
  EXPECT_EQ(pages(), 5U);
  const Address large = allocate(6);
  EXPECT_EQ(launch({large}), Status::kWorkingSetTooLarge);
  EXPECT_THAT(warnings_, Contains(HasSubstr("raise the budget")));
}

TEST_F(BudgetTest, ShrinkingGivesCachedPagesBackFirst) {
  make(budget_of(16, PolicyKind::kAuto));
  load_buffers(4);
  const Address freed = load(8, 9);
  ASSERT_EQ(manager_->free(freed), Status::kOk);
  ASSERT_EQ(pages(), 12U);
  ASSERT_EQ(set_pages(4), BudgetAnswer::kChanged);
  settle();
  EXPECT_EQ(pages(), 4U);
  EXPECT_EQ(manager_->stats().write_backs, 0U);
}

TEST_F(BudgetTest, NoPageIsCreatedBeyondTheNewBudgetWhileBuffersAreStillInUse) {
  make(budget_of(16, PolicyKind::kAuto));
  load_buffers(8);
  device_->submit_blocking_host_function(stream_);
  run_pass();
  ASSERT_EQ(set_pages(4), BudgetAnswer::kChanged);
  device_->forget_peak();
  settle(std::chrono::milliseconds{5});
  EXPECT_GT(pages(), 4U) << "a buffer in use was taken away";
  (void)allocate(1);
  EXPECT_EQ(device_->peak_bytes(), Bytes{}) << "a page was created over the budget";
  device_->release_host_functions();
  settle();
  EXPECT_EQ(pages(), 4U);
  expect_contents(1);
}

// Each launch is submitted before the one before it has run, as programs do that never wait.
TEST_F(BudgetTest, AProgramThatRunsFarAheadComesDownToTheNewBudget) {
  make(budget_of(16, PolicyKind::kAuto));
  load_buffers(8);
  for (int pass = 0; pass < 4; ++pass) run_pass();
  ASSERT_EQ(set_pages(6), BudgetAnswer::kChanged);
  run_pass();
  EXPECT_LE(pages(), 6U);
  expect_contents(5);
}

// Work that itself waits for the program holds launches up once, and not for ever (I7).
TEST_F(BudgetTest, LaunchesDoNotWaitForEverForBuffersThatCannotGo) {
  make(budget_of(16, PolicyKind::kAuto));
  load_buffers(8);
  device_->submit_blocking_host_function(stream_);
  run_pass();
  ASSERT_EQ(set_pages(6), BudgetAnswer::kChanged);
  const auto begun = device_->now();
  run_pass();
  EXPECT_LE(device_->now() - begun, 2 * options_.wait_limit);
  device_->release_host_functions();
  settle();
  EXPECT_LE(pages(), 6U);
  expect_contents(2);
}

TEST_F(BudgetTest, GrowingIsUsedWithinOnePass) {
  make(budget_of(4, PolicyKind::kAuto));
  load_buffers(12);
  for (int pass = 0; pass < 4; ++pass) run_pass();
  settle();
  ASSERT_LE(pages(), 4U);
  ASSERT_EQ(set_pages(9), BudgetAnswer::kChanged);
  run_pass();
  settle();
  EXPECT_EQ(pages(), 9U);
  ASSERT_EQ(set_pages(12), BudgetAnswer::kChanged);
  run_pass();
  const std::uint64_t fetches = manager_->stats().demand_fetches + manager_->stats().prefetches;
  run_pass();
  EXPECT_EQ(manager_->stats().demand_fetches + manager_->stats().prefetches, fetches)
      << "all fits, and something moved";
  expect_contents(7);
}

TEST_F(BudgetTest, AnotherBudgetIsCountedAndReported) {
  make(budget_of(16, PolicyKind::kAuto));
  EXPECT_EQ(manager_->stats().budget, Bytes{16 * kPage});
  (void)set_pages(8);
  (void)set_pages(8);
  (void)set_pages(12);
  EXPECT_EQ(manager_->stats().budget_changes, 2U);
  EXPECT_EQ(manager_->stats().budget, Bytes{12 * kPage});
}

TEST_F(BudgetTest, PoliciesWithAKRefuse) {
  PolicyConfig policy;
  policy.kind = PolicyKind::kSuperpipeline;
  policy.k = 2;
  policy.k_prime = 1;
  make(policy);
  EXPECT_EQ(set_pages(8), BudgetAnswer::kCountsLayers);
}

TEST_F(BudgetTest, APolicyThatMovesNothingRefuses) {
  make(PolicyConfig{});
  EXPECT_EQ(set_pages(8), BudgetAnswer::kNothingMoves);
}

TEST_F(BudgetTest, ABudgetWithoutRoomForAPageIsRefused) {
  options_.headroom = Bytes{3 * kPage};
  make(budget_of(16, PolicyKind::kAuto));
  EXPECT_EQ(set_pages(3), BudgetAnswer::kTooSmall);
  EXPECT_EQ(limit(), 13U);
  EXPECT_EQ(set_pages(4), BudgetAnswer::kChanged);
  EXPECT_EQ(limit(), 1U);
}

TEST_F(BudgetTest, AManagerThatHasEndedRefuses) {
  make(budget_of(16, PolicyKind::kAuto));
  manager_->shut_down();
  EXPECT_EQ(set_pages(8), BudgetAnswer::kEnded);
}

// While everything fits no host memory is set aside, so it can be short when it is needed.
TEST_F(BudgetTest, StaysAsItWasWhereHostMemoryIsShort) {
  options_.host_limit = Bytes{5 * kPage};
  make(budget_of(16, PolicyKind::kAuto));
  load_buffers(12);
  EXPECT_EQ(set_pages(8), BudgetAnswer::kHostMemoryShort);
  EXPECT_EQ(manager_->live_state().counters.budget, Bytes{16 * kPage});
  EXPECT_EQ(limit(), 16U);
  EXPECT_EQ(manager_->stats().budget_changes, 0U);
  settle();
  EXPECT_EQ(pages(), 12U);
  // Nothing was left set aside: what fits can still be had, and be given another budget.
  EXPECT_EQ(set_pages(12), BudgetAnswer::kChanged);
  expect_contents(0);
}

TEST_F(BudgetTest, SetsHostMemoryAsideForAllThatLivesWhenItNoLongerFits) {
  options_.host_limit = Bytes{13 * kPage};
  make(budget_of(16, PolicyKind::kAuto));
  load_buffers(12);
  ASSERT_EQ(set_pages(8), BudgetAnswer::kChanged);
  // One more, and as many as may stay on the device.
  for (int i = 0; i < 1 + 6; ++i) {
    EXPECT_TRUE(manager_->allocate(Bytes{kPage}, std::nullopt).ok()) << i;
  }
  EXPECT_EQ(manager_->allocate(Bytes{kPage}, std::nullopt).status(), Status::kOutOfHostMemory);
}

TEST_F(BudgetTest, DeviceAndHostHoldTogetherWhatNeitherDoes) {
  for (const PolicyKind kind : {PolicyKind::kAuto, PolicyKind::kSuperpipeline}) {
    options_.host_limit = Bytes{6 * kPage};
    make(budget_of(8, kind));
    load_buffers(12);
    for (int pass = 0; pass < 5; ++pass) run_pass();
    expect_contents(5);
    EXPECT_LE(pages(), 8U);
    EXPECT_EQ(manager_->stats().errors, 0U);
    EXPECT_EQ(manager_->stats().passthrough_bytes, Bytes{});
    EXPECT_THAT(warnings_, Contains(HasSubstr("SUPERPIPE_HOST_MEM")));
    TearDown();
    buffers_.clear();
    warnings_.clear();
  }
}

TEST_F(BudgetTest, WhatHostMemoryIsShortOfStaysOnTheDevice) {
  options_.host_limit = Bytes{6 * kPage};
  make(budget_of(16, PolicyKind::kAuto));
  load_buffers(12);
  ASSERT_EQ(set_pages(8), BudgetAnswer::kChanged);
  settle();
  EXPECT_EQ(pages(), 8U);
  EXPECT_EQ(manager_->stats().errors, 0U);
  expect_contents(0);
  EXPECT_EQ(set_pages(7), BudgetAnswer::kHostMemoryShort) << "six stay, too much of seven";
}

TEST_F(BudgetTest, SaysThatPinnedBuffersDoNotFit) {
  make(budget_of(16, PolicyKind::kAuto));
  load_buffers(8);
  ASSERT_EQ(manager_->pin_forever(buffers_, "a test"), Status::kOk);
  ASSERT_EQ(set_pages(4), BudgetAnswer::kChanged);
  EXPECT_THAT(warnings_, Contains(HasSubstr("cannot be moved")));
  settle();
  EXPECT_EQ(pages(), 8U);
  expect_contents(0);
}

TEST_F(BudgetTest, ALayeredPolicyWithABudgetFollows) {
  make(budget_of(16, PolicyKind::kSuperpipeline));
  load_buffers(12);
  for (int pass = 0; pass < 4; ++pass) run_pass();
  ASSERT_EQ(set_pages(6), BudgetAnswer::kChanged);
  for (int pass = 0; pass < 2; ++pass) run_pass();
  settle();
  EXPECT_LE(pages(), 6U);
  expect_contents(6);
}

// -- other processes

TEST_F(BudgetTest, PagesGiveWayToWhatOtherProcessesTake) {
  make_on_small_device(budget_of(48, PolicyKind::kAuto));
  load_buffers(40);
  device_->set_others(Bytes{32 * kPage});
  settle(std::chrono::milliseconds{3000});
  EXPECT_LE(pages(), 32U);
  EXPECT_GE(pages(), 30U);
  EXPECT_EQ(manager_->live_state().counters.budget, Bytes{48 * kPage})
      << "the budget is the user's";
  expect_contents(0);
}

TEST_F(BudgetTest, TheHeadroomStaysFreeBesideOtherProcesses) {
  options_.headroom = Bytes{4 * kPage};
  make_on_small_device(budget_of(60, PolicyKind::kAuto));
  load_buffers(40);
  device_->set_others(Bytes{32 * kPage});
  settle(std::chrono::milliseconds{3000});
  EXPECT_LE(pages(), 28U);
}

TEST_F(BudgetTest, TheRoomComesBackWhenOtherProcessesLeave) {
  make_on_small_device(budget_of(48, PolicyKind::kAuto));
  load_buffers(40);
  device_->set_others(Bytes{40 * kPage});
  settle(std::chrono::milliseconds{3000});
  ASSERT_LE(pages(), 24U);
  device_->set_others(Bytes{});
  settle(std::chrono::milliseconds{3000});
  EXPECT_EQ(limit(), 48U);
  run_pass();
  settle();
  EXPECT_EQ(pages(), 40U);
  expect_contents(1);
}

TEST_F(BudgetTest, ABudgetOfFreeMemoryGivesWayAsWell) {
  make_on_small_device(free_memory_of(64));
  load_buffers(40);
  device_->set_others(Bytes{40 * kPage});
  settle(std::chrono::milliseconds{3000});
  EXPECT_LE(pages(), 24U);
}

TEST_F(BudgetTest, ALaunchThatFitsTheBudgetIsNotRefusedForOtherProcesses) {
  make_on_small_device(budget_of(48, PolicyKind::kAuto));
  load_buffers(8, 4);
  device_->set_others(Bytes{48 * kPage});
  settle(std::chrono::milliseconds{3000});
  ASSERT_LE(pages(), 16U);
  // It needs more than other processes leave at this moment; then they leave more.
  device_->set_others(Bytes{30 * kPage});
  EXPECT_EQ(launch(buffers_), Status::kOk);
  EXPECT_THAT(warnings_, Not(Contains(HasSubstr("raise the budget"))));
}

TEST_F(BudgetTest, PagesStayWhereHostMemoryIsShortOfWhatWouldGiveWay) {
  options_.host_limit = Bytes{6 * kPage};
  make_on_small_device(budget_of(48, PolicyKind::kAuto));
  load_buffers(40);
  device_->set_others(Bytes{40 * kPage});
  settle(std::chrono::milliseconds{3000});
  EXPECT_EQ(pages(), 40U);
  EXPECT_EQ(limit(), 48U);
  EXPECT_THAT(warnings_, Contains(HasSubstr("SUPERPIPE_HOST_MEM")));
}

TEST_F(BudgetTest, AProcessThatFitsBesideOthersMovesNothing) {
  make_on_small_device(budget_of(48, PolicyKind::kAuto));
  load_buffers(20);
  device_->set_others(Bytes{40 * kPage});
  settle(std::chrono::milliseconds{3000});
  EXPECT_EQ(pages(), 20U);
  EXPECT_EQ(manager_->stats().write_backs, 0U);
}

}  // namespace
}  // namespace superpipe::testing
