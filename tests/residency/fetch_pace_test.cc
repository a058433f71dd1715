// How long what is missing may stay out.
#include "residency/transfer/fetch_pace.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <vector>

namespace superpipe {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

class FetchPaceTest : public ::testing::Test {
 protected:
  static constexpr double kLink = 16e9;
  static constexpr Bytes kPiece{16'000'000};  // a millisecond

  /// A launch is announced that comes so long after the one before.
  void launch(microseconds after) {
    now_ += after;
    ++launches_;
    missing_.advance(launches_ - 1);
    pace_.note_launches(now_, launches_, pass_);
  }
  void launch_many(int count, microseconds each) {
    for (int i = 0; i < count; ++i) launch(each);
  }
  void fetch_many(int count, microseconds calls = microseconds{100}) {
    for (int i = 0; i < count; ++i) pace_.note_fetch(calls, kPiece);
  }
  /// It is known how long both take: a millisecond each.
  void learn() {
    fetch_many(20);
    launch_many(static_cast<int>(3 * pass_), milliseconds{1});
  }
  void lacks(std::uint64_t ahead, int pieces = 1) {
    missing_.add(launches_ - 1 + ahead, kPiece * static_cast<std::uint64_t>(pieces));
  }
  /// In milliseconds; far more than any if nobody knows.
  double slack(double link = kLink) {
    const auto found = pace_.slack(missing_, link, now_);
    EXPECT_TRUE(found.has_value());
    return found ? std::chrono::duration<double, std::milli>(*found).count() : 1e9;
  }

  std::uint64_t pass_ = 100;
  FetchPace pace_;
  MissingBytes missing_;
  FetchPace::TimePoint now_{};
  std::uint64_t launches_ = 0;
};

TEST_F(FetchPaceTest, KnowsNothingBeforeAPassHasGoneBy) {
  fetch_many(20);
  lacks(50);
  launch_many(40, milliseconds{1});
  EXPECT_FALSE(pace_.slack(missing_, kLink, now_));
}

TEST_F(FetchPaceTest, KnowsNothingBeforeAnythingWasFetchedOrTheLinkMeasured) {
  launch_many(300, milliseconds{1});
  lacks(50);
  EXPECT_FALSE(pace_.slack(missing_, kLink, now_));
  fetch_many(20);
  EXPECT_FALSE(pace_.slack(missing_, 0, now_));
  EXPECT_TRUE(pace_.slack(missing_, kLink, now_));
}

// Twice the time that it takes, and a little, before the launch is announced.
TEST_F(FetchPaceTest, IsTheTimeUpToTheLaunchLessThatOfTheFetch) {
  learn();
  lacks(50);
  EXPECT_NEAR(slack(), 50 - 2 - 0.3, 0.01);
  lacks(50, 9);
  EXPECT_NEAR(slack(), 50 - 20 - 0.3, 0.01);
}

TEST_F(FetchPaceTest, IsThatOfTheFirstLaunchForWhichItIsTooLate) {
  learn();
  lacks(50);
  lacks(60, 24);
  EXPECT_NEAR(slack(), 60 - 50 - 0.3, 0.01);
  lacks(3);
  EXPECT_NEAR(slack(), 3 - 2 - 0.3, 0.01);
}

// Whoever rests until the next launch is announced rests too long for it.
TEST_F(FetchPaceTest, ThereIsNoTimeForAFetchThatTakesLessThanALaunchButComesNext) {
  learn();
  lacks(1);
  EXPECT_LT(slack(), 0);
  EXPECT_LT(slack(64e9), 0.3) << "a fast link: 1 ms, less 0.5 for the fetch, and a little";
}

TEST_F(FetchPaceTest, GoesByWithTime) {
  learn();
  lacks(50);
  now_ += milliseconds{40};
  EXPECT_NEAR(slack(), 10 - 2 - 0.3, 0.01) << "no launch has come meanwhile";
  now_ += milliseconds{40};
  EXPECT_LT(slack(), 0);
}

TEST_F(FetchPaceTest, CountsCallsThatTakeLongerThanTheLink) {
  learn();
  for (int i = 0; i < 200; ++i) {
    pace_.note_calls(milliseconds{1});
    pace_.note_fetch(milliseconds{2}, kPiece);
  }
  lacks(50);
  EXPECT_NEAR(slack(), 50 - 6 - 0.3, 0.1);
}

// Launches that take longer than others leave more time before those behind them.
TEST_F(FetchPaceTest, KnowsWhereInAPassTheTimeGoesBy) {
  fetch_many(20);
  for (int pass = 0; pass < 3; ++pass) {
    launch_many(90, microseconds{10});
    launch_many(10, milliseconds{10});
  }
  lacks(90);
  EXPECT_LT(slack(), 0) << "0.9 ms";
  lacks(95);
  missing_.remove(launches_ - 1 + 90, kPiece);
  EXPECT_NEAR(slack(), 50.9 - 2.3, 10.1) << "as far as there are samples";
  launch_many(90, microseconds{10});
  missing_.clear();
  lacks(10);
  EXPECT_NEAR(slack(), 100 - 2.3, 0.1);
}

// A server waits for the next request before its last launch's successor.
TEST_F(FetchPaceTest, IsNotMisledByAPauseInOneOfThePasses) {
  learn();
  launch_many(50, milliseconds{1});
  launch(std::chrono::seconds{60});
  launch_many(49, milliseconds{1});
  lacks(80);
  EXPECT_NEAR(slack(), 80 - 2 - 0.3, 1.5);
}

// A pass ends with a wait for its result: its last launches come as fast as the others.
TEST_F(FetchPaceTest, APauseBehindThePassIsNoTimeBeforeItsLastLaunches) {
  pass_ = 6500;
  fetch_many(20);
  for (int pass = 0; pass < 3; ++pass) {
    launch_many(6500, microseconds{10});
    for (int look = 0; look < 600; ++look) {
      now_ += microseconds{100};
      pace_.note_launches(now_, launches_, pass_);
    }
  }
  launch_many(6000, microseconds{10});
  missing_.add(launches_ - 1 + 480, Bytes{2'000'000});
  EXPECT_NEAR(slack(), 4.8 - 0.25 - 0.3, 0.3);
  missing_.clear();
  missing_.add(launches_ - 1 + 502, Bytes{2'000'000});
  EXPECT_NEAR(slack(), 60 + 5.0 - 0.25 - 0.3, 0.5) << "behind the wait";
}

TEST_F(FetchPaceTest, KnowsNothingWhereNobodyKnowsPasses) {
  learn();
  lacks(50);
  pass_ = 0;
  launch(milliseconds{1});
  EXPECT_FALSE(pace_.slack(missing_, kLink, now_));
}

TEST_F(FetchPaceTest, BeginsAnewWithAnotherPolicyThatCounts) {
  learn();
  launches_ = 0;
  missing_ = {};
  launch(milliseconds{1});
  lacks(5);
  EXPECT_FALSE(pace_.slack(missing_, kLink, now_));
}

TEST_F(FetchPaceTest, MayRestForEverWhereNothingIsMissing) {
  learn();
  EXPECT_GT(slack(), 1e6);
}

TEST_F(FetchPaceTest, KnowsPassesOfAnyLength) {
  for (const std::uint64_t pass : {1U, 2U, 7U, 64U, 65U, 1000U, 50'000U}) {
    pace_ = {};
    missing_ = {};
    launches_ = 0;
    pass_ = pass;
    learn();
    lacks(pass);
    EXPECT_NEAR(slack(), static_cast<double>(pass) - 2 - 0.3, 0.01 * static_cast<double>(pass));
  }
}

/// The device takes a millisecond for each launch, and the host announces those of a pass at once.
class FarAheadTest : public FetchPaceTest {
 protected:
  void SetUp() override {
    fetch_many(20);
    for (int pass = 0; pass < 3; ++pass) complete_pass();
  }
  void complete_pass() {
    launch_many(static_cast<int>(pass_), microseconds{0});
    for (std::uint64_t i = 0; i < pass_; ++i) complete(milliseconds{1});
  }
  void complete(microseconds after) {
    now_ += after;
    pace_.note_completed(now_, ++completed_, pass_);
  }
  /// Of the present launch, which lacks so many pieces; in milliseconds.
  double slack_of_demand(int pieces) {
    const auto found = pace_.slack_of_demand(kPiece * static_cast<std::uint64_t>(pieces),
                                             launches_ - 1, missing_, kLink, now_);
    EXPECT_TRUE(found.has_value());
    return found ? std::chrono::duration<double, std::milli>(*found).count() : 1e9;
  }

  std::uint64_t completed_ = 0;
};

TEST_F(FarAheadTest, ADemandHasTheTimeUntilTheDeviceComesToItsLaunch) {
  launch_many(51, microseconds{0});
  EXPECT_NEAR(slack_of_demand(1), 50 - 2 - 4, 0.01);
  EXPECT_NEAR(slack_of_demand(10), 50 - 20 - 4, 0.01);
}

TEST_F(FarAheadTest, ItsTimeGoesByWithTheLaunchesThatComplete) {
  launch_many(51, microseconds{0});
  for (int i = 0; i < 30; ++i) complete(milliseconds{1});
  EXPECT_NEAR(slack_of_demand(1), 20 - 2 - 4, 0.01);
  now_ += milliseconds{10};
  EXPECT_NEAR(slack_of_demand(1), 10 - 2 - 4, 0.01) << "none has completed meanwhile";
}

TEST_F(FarAheadTest, WhatIsMissingBehindItHasToComeInTimeAsWell) {
  launch_many(51, microseconds{0});
  lacks(10, 20);
  EXPECT_NEAR(slack_of_demand(1), 60 - 42 - 4, 0.01);
}

TEST_F(FarAheadTest, ThereIsNoTimeOnceTheDeviceIsThere) {
  launch_many(51, microseconds{0});
  for (int i = 0; i < 50; ++i) complete(milliseconds{1});
  EXPECT_LT(slack_of_demand(1), 0);
}

TEST_F(FetchPaceTest, NobodyKnowsOfADemandBeforeTheDeviceHasDoneAPass) {
  learn();
  EXPECT_FALSE(pace_.slack_of_demand(kPiece, launches_ - 1, missing_, kLink, now_));
}

}  // namespace
}  // namespace superpipe
