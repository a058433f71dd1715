#include "tools/superpipe/planner/queue_meter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace superpipe::cli {
namespace {

constexpr TraceIndex kStream = 1;
constexpr std::uint32_t kThread = 7;
constexpr double kKernel = 100'000;  // ns on the device
constexpr double kCall = 5'000;      // ns of the host for a launch that nobody holds up

/// A program whose driver has room for `room` launches, and says of one in so many when it ended.
class QueueMeterTest : public ::testing::Test {
 protected:
  // Launches `launches` kernels one after the other, each as soon as the driver takes it.
  void launch(int launches, std::uint64_t room, int told_one_in = 1) {
    for (int i = 0; i < launches; ++i) {
      host_ += kCall;
      const double submitted = host_;
      const std::uint64_t place = meter_.submit(kStream, kThread, submitted);
      device_ = std::max(device_, submitted) + kKernel;
      ends_.push_back(device_);
      if (place > room) hold_up(submitted, ends_[place - room - 1]);
      if (i % told_one_in == 0) told_.push_back(place);
    }
    // A trace has times of kernels some time later.
    for (const std::uint64_t place : told_) meter_.end(kStream, place, ends_[place - 1]);
    told_.clear();
  }

  void hold_up(double submitted, double until) {
    if (until <= submitted) return;
    host_ = until;
    meter_.wait(kThread, host_, host_ - submitted);
  }

  QueueMeter meter_;
  double host_ = 0;
  double device_ = 0;
  std::vector<double> ends_;  ///< by place, less one
  std::vector<std::uint64_t> told_;
};

TEST_F(QueueMeterTest, TellsHowManyWereUnderWayWhenALaunchWasHeldUp) {
  launch(2'000, 250);
  ASSERT_TRUE(meter_.depth().has_value());
  EXPECT_NEAR(static_cast<double>(*meter_.depth()), 250, 1);
}

TEST_F(QueueMeterTest, KernelsWhoseTimesAreKnownTellOfThoseBetween) {
  launch(2'000, 250, 16);
  ASSERT_TRUE(meter_.depth().has_value());
  EXPECT_NEAR(static_cast<double>(*meter_.depth()), 250, 3);
}

TEST_F(QueueMeterTest, SaysNothingOfAProgramThatIsNotHeldUp) {
  launch(2'000, 1'000'000);
  EXPECT_FALSE(meter_.depth().has_value());
}

TEST_F(QueueMeterTest, SaysNothingWhereNoKernelsTimeIsKnown) {
  for (int i = 0; i < 2'000; ++i) {
    host_ += kCall;
    (void)meter_.submit(kStream, kThread, host_);
    meter_.wait(kThread, host_ + kKernel, kKernel);
    host_ += kKernel;
  }
  EXPECT_FALSE(meter_.depth().has_value());
}

// A launch waits for its buffers before it is submitted.
TEST_F(QueueMeterTest, WaitsThatDidNotBeginWithASubmissionDoNotCount) {
  for (int i = 0; i < 40; ++i) {
    launch(100, 1'000'000);
    host_ += 1'000'000;
    meter_.wait(kThread, host_, 900'000);
  }
  EXPECT_FALSE(meter_.depth().has_value());
}

TEST_F(QueueMeterTest, FewWaitsSayNothing) {
  launch(250 + static_cast<int>(QueueMeter::kFewest) - 1, 250);
  EXPECT_FALSE(meter_.depth().has_value());
}

// The machine was elsewhere: with any number under way, and a driver that takes many more.
TEST_F(QueueMeterTest, LaunchesThatWereFurtherAheadShowThatWaitsHadOtherReasons) {
  for (int pass = 0; pass < 10; ++pass) {
    for (int i = 0; i < 900; ++i) {
      launch(1, 1'000'000);
      if (i % 20 == 10) hold_up(host_, host_ + 30'000);
    }
    host_ = std::max(host_, device_);  // it waits for its device
  }
  EXPECT_FALSE(meter_.depth().has_value());
}

// It is ahead by a few launches only, and any of them may take long.
TEST_F(QueueMeterTest, NoQueueIsTakenForVeryShort) {
  launch(2'000, QueueMeter::kLeastDepth / 2);
  EXPECT_FALSE(meter_.depth().has_value());
}

TEST_F(QueueMeterTest, EachStreamHasAQueueOfItsOwn) {
  const auto use_another = [&](int times) {
    for (int i = 0; i < times; ++i) {
      const double at = host_ + kCall * i;
      meter_.end(kStream + 1, meter_.submit(kStream + 1, kThread + 1, at), at + kCall);
    }
  };
  launch(1'000, 250);
  use_another(100);
  ASSERT_TRUE(meter_.depth().has_value());
  EXPECT_NEAR(static_cast<double>(*meter_.depth()), 250, 1);
  use_another(100);
  EXPECT_FALSE(meter_.depth().has_value()) << "a replay has one queue";
}

TEST_F(QueueMeterTest, WhatADamagedTraceSaysIsNoQueue) {
  meter_.end(kStream, 5, 1e9);   // of no launch
  meter_.wait(kThread, 1e9, 5);  // of no thread
  launch(2'000, 250);
  meter_.end(kStream, 20'000, 1e300);
  for (int i = 0; i < 100; ++i) meter_.wait(kThread, -1e18, 1e300);
  for (TraceIndex stream = 10; stream < 110; ++stream) (void)meter_.submit(stream, stream, 1);
  EXPECT_NEAR(static_cast<double>(*meter_.depth()), 250, 1);
}

}  // namespace
}  // namespace superpipe::cli
