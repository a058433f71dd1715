// The thread that carries out what other processes ask.
#include "interposer/budget_requests.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <utility>
#include <variant>

#include "profiler/live_process.h"
#include "profiler/live_segment.h"
#include "tests/hang_limit.h"
#include "tests/temporary_folder.h"

namespace superpipe {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLong = testing::kHangLimit;

class BudgetRequestsTest : public ::testing::Test {
 protected:
  BudgetRequestsTest() {
    folder_ = make_temporary_folder("budget-requests");
    std::string problem;
    auto segment = LiveSegment::create({PolicyKind::kAuto, 16_GiB}, problem, folder_);
    requests_ = std::make_unique<BudgetRequests>(
        std::move(segment), BudgetRequests::Actions{[this](Bytes budget) { return set(budget); },
                                                    [this] { return figures(); }});
  }
  ~BudgetRequestsTest() override {
    requests_.reset();
    std::filesystem::remove_all(folder_);
  }

  BudgetAnswer set(Bytes budget) {
    if (budget < 1_GiB) return BudgetAnswer::kTooSmall;
    budget_ = budget.count();
    return BudgetAnswer::kChanged;
  }
  LiveFigures figures() {
    // Each look finds one page less, until they fit.
    const std::uint64_t pages = pages_ > budget_ ? pages_.fetch_sub(1 << 20) : pages_.load();
    return {Bytes{budget_}, Bytes{budget_}, Bytes{pages}, Bytes{}};
  }
  [[nodiscard]] bool is_shown() const {
    return std::holds_alternative<LiveProcess>(LiveProcess::open(::getpid(), folder_));
  }
  LiveProcess open() {
    auto opened = LiveProcess::open(::getpid(), folder_);
    return std::move(std::get<LiveProcess>(opened));
  }

  std::string folder_;
  std::atomic<std::uint64_t> budget_{(4_GiB).count()};
  std::atomic<std::uint64_t> pages_{(3_GiB).count()};
  std::unique_ptr<BudgetRequests> requests_;
};

TEST_F(BudgetRequestsTest, PublishesAtOnceAndCarriesRequestsOut) {
  LiveProcess process = open();
  EXPECT_EQ(process.figures()->budget, 4_GiB);
  BudgetAnswer answer{};
  ASSERT_EQ(process.request(5_GiB, kLong, answer), LiveProcess::Outcome::kAnswered);
  EXPECT_EQ(answer, BudgetAnswer::kChanged);
  EXPECT_EQ(process.figures()->budget, 5_GiB);
  ASSERT_EQ(process.request(1_MiB, kLong, answer), LiveProcess::Outcome::kAnswered);
  EXPECT_EQ(answer, BudgetAnswer::kTooSmall);
  ASSERT_EQ(process.request(std::nullopt, kLong, answer), LiveProcess::Outcome::kAnswered);
  EXPECT_EQ(process.figures()->budget, 5_GiB);
}

TEST_F(BudgetRequestsTest, PublishesUntilThePagesFit) {
  LiveProcess process = open();
  BudgetAnswer answer{};
  ASSERT_EQ(process.request(Bytes{(3_GiB).count() - (4 << 20)}, kLong, answer),
            LiveProcess::Outcome::kAnswered);
  const testing::HangGuard guard;
  while (process.figures()->pages > process.figures()->limit) {
    ASSERT_FALSE(guard.is_over());
    std::this_thread::yield();
  }
}

TEST_F(BudgetRequestsTest, StopsAtOnceAndIsNotFoundAnyMore) {
  ASSERT_TRUE(is_shown());
  requests_->stop();  // the test's time limit is shorter than its longest sleep
  EXPECT_FALSE(is_shown());
}

// An access to a page beyond the end of a file would be a signal that ends the program.
TEST_F(BudgetRequestsTest, AnswersAgainAfterItsSegmentWasCutShort) {
  const std::string path = live_segment_path(::geteuid(), ::getpid(), folder_);
  std::filesystem::resize_file(path, 0);
  const testing::HangGuard guard;
  while (!is_shown()) {
    ASSERT_FALSE(guard.is_over());
    std::this_thread::sleep_for(milliseconds{1});
  }
  BudgetAnswer answer{};
  LiveProcess process = open();
  ASSERT_EQ(process.request(5_GiB, kLong, answer), LiveProcess::Outcome::kAnswered);
  EXPECT_EQ(answer, BudgetAnswer::kChanged);
  std::filesystem::resize_file(path, 0);
  requests_->stop();
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(BudgetRequestsTest, StopsThoughItsSegmentIsGone) {
  std::filesystem::resize_file(live_segment_path(::geteuid(), ::getpid(), folder_), 0);
  std::filesystem::remove(live_segment_path(::geteuid(), ::getpid(), folder_));
  requests_->stop();
}

TEST_F(BudgetRequestsTest, IsGivenUpAtExitWhenItsThreadHasEnded) {
  EXPECT_TRUE(requests_->abandon(kLong));
  EXPECT_FALSE(is_shown());
}

TEST_F(BudgetRequestsTest, AForkedChildAnswersForNobodyAndRemovesNothing) {
  const int child = ::fork();
  if (child == 0) {
    const bool gone = requests_->abandon();
    (void)requests_.release();
    ::_exit(gone ? 1 : 0);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(is_shown());
  BudgetAnswer answer{};
  LiveProcess process = open();
  EXPECT_EQ(process.request(5_GiB, kLong, answer), LiveProcess::Outcome::kAnswered);
}

}  // namespace
}  // namespace superpipe
