// When the link rests, and when a launch does: of a program with equal layers in a cycle.
#include "residency/transfer/pacing.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "policy/auto_policy.h"

namespace superpipe {
namespace {

using std::chrono::milliseconds;

constexpr std::uint32_t kLayers = 8;
constexpr Bytes kLayer = 1_MiB;
constexpr milliseconds kCompute{10};
/// A layer takes a tenth of a millisecond, and half a second.
constexpr double kFastLink = 1e10;
constexpr double kSlowLink = 2e6;

/// Layers that take kCompute each, of which all but the last are on the device.
class PacingTest : public ::testing::Test {
 protected:
  PacingTest() {
    for (std::uint32_t i = 0; i < kLayers; ++i) {
      policy_.on_allocate(BufferId{i}, kLayer, 1);
      if (i + 1 < kLayers) policy_.on_brought(BufferId{i});
    }
    for (int i = 0; i < 16; ++i) pacing_.note_fetch(std::chrono::microseconds{20}, kLayer);
  }
  /// The program launches so many layers, and the device is done with all but the last `ahead`.
  void run(std::uint32_t layers, std::uint64_t ahead = 0) {
    for (std::uint32_t i = 0; i < layers; ++i) {
      pacing_.note_launch(seq_, policy_);
      policy_.on_launch(KernelId{1}, std::vector{BufferId{next_++ % kLayers}});
      pacing_.note_submitted(++seq_, policy_);
      now_ += kCompute;
      pacing_.note_announced(now_, policy_);
      if (seq_ > ahead) pacing_.note_completed(now_, seq_ - ahead, policy_);
    }
  }
  std::optional<Pacing::TimePoint> link_rest(double link) {
    return pacing_.link_rest(policy_, link, now_);
  }
  bool rests(const Pacing::Demand& demand, AutoPolicy* policy, double link = kFastLink) {
    return pacing_.launch_rests(rest_, demand, policy, link, now_);
  }

  AutoPolicy policy_;
  Pacing pacing_;
  Pacing::Rest rest_;
  Pacing::TimePoint now_{std::chrono::seconds{1}};
  std::uint64_t seq_ = 0;
  std::uint32_t next_ = 0;
};

constexpr Pacing::Demand kAlone{kLayer, kLayer, true};

TEST_F(PacingTest, LinkDoesNotRestBeforeTheOrderIsKnown) {
  run(kLayers);
  EXPECT_EQ(link_rest(kFastLink), std::nullopt);
}

TEST_F(PacingTest, LinkRestsWhileWhatIsMissingComesInTimeAndIsAskedAgainSoon) {
  run(4 * kLayers + 1);
  const auto until = link_rest(kFastLink);
  ASSERT_TRUE(until);
  EXPECT_GT(*until, now_);
  EXPECT_LT(*until, now_ + milliseconds{1});
}

TEST_F(PacingTest, LinkDoesNotRestWhereItIsTooSlowOrItsSpeedIsNotKnown) {
  run(4 * kLayers + 1);
  EXPECT_EQ(link_rest(kSlowLink), std::nullopt);
  EXPECT_EQ(link_rest(0), std::nullopt);
}

TEST_F(PacingTest, LinkBeginsBeforeTheLaunchThatLacksSomething) {
  run(4 * kLayers + 1);
  ASSERT_TRUE(link_rest(kFastLink));
  run(kLayers - 2);
  now_ += kCompute;  // the launch is late, and is the next one
  EXPECT_EQ(link_rest(kFastLink), std::nullopt);
}

TEST_F(PacingTest, LaunchRestsWhileTheDeviceIsFarFromIt) {
  run(64 * kLayers, 6);
  EXPECT_TRUE(rests(kAlone, &policy_));
  EXPECT_TRUE(pacing_.has_resting());
  EXPECT_TRUE(rest_.lasts(now_));
  EXPECT_FALSE(pacing_.must_wake(now_));
  now_ = rest_.until;
  EXPECT_FALSE(rest_.lasts(now_));
  EXPECT_TRUE(pacing_.must_wake(now_));
  EXPECT_FALSE(pacing_.must_wake(now_)) << "once is enough";
  EXPECT_FALSE(pacing_.has_resting());
}

TEST_F(PacingTest, LaunchDoesNotRestWhereTheDeviceHasComeToIt) {
  run(64 * kLayers);
  EXPECT_FALSE(rests(kAlone, &policy_));
  EXPECT_TRUE(rest_.is_over);
  EXPECT_FALSE(pacing_.has_resting());
}

TEST_F(PacingTest, LaunchDoesNotRestBesideOtherStreamsNorForNewBuffersNorWithoutPolicy) {
  run(64 * kLayers, 6);
  for (const Pacing::Demand& demand :
       {Pacing::Demand{kLayer, kLayer, false}, Pacing::Demand{2 * kLayer, kLayer, true}}) {
    rest_ = {};
    EXPECT_FALSE(rests(demand, &policy_));
  }
  rest_ = {};
  EXPECT_FALSE(rests(kAlone, nullptr));
  rest_ = {};
  EXPECT_FALSE(rests(kAlone, &policy_, kSlowLink));
  rest_ = {};
  EXPECT_TRUE(rests(kAlone, &policy_));
}

// The device's work may wait for the thread that rests.
TEST_F(PacingTest, AfterARestInWhichTheDeviceDidNothingTheNextLaunchDoesNotRest) {
  run(64 * kLayers, 6);
  ASSERT_TRUE(rests(kAlone, &policy_));
  pacing_.end_rest(rest_, now_ + milliseconds{5});
  EXPECT_TRUE(rest_.is_over);
  EXPECT_FALSE(rest_.lasts(now_)) << "though its time was not over";
  rest_ = {};
  EXPECT_FALSE(rests(kAlone, &policy_));
  rest_ = {};
  EXPECT_TRUE(rests(kAlone, &policy_)) << "one was left out";
}

}  // namespace
}  // namespace superpipe
