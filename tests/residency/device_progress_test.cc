// Launches that the device is done with.
#include "residency/streams/device_progress.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace superpipe {
namespace {

// A use has the number of its launch, and a copy comes between any two of them.
void announce(DeviceProgress& progress, std::uint64_t launch) {
  progress.note_launch(2 * launch, launch);
}

TEST(DeviceProgress, LaunchesAreCompleteWithTheUsesBeforeTheNextOne) {
  DeviceProgress progress;
  for (std::uint64_t launch = 0; launch < 3; ++launch) {
    announce(progress, launch);
    EXPECT_EQ(progress.advance(0), 0U);
  }
  EXPECT_EQ(progress.advance(1), 0U);
  EXPECT_EQ(progress.advance(2), 1U);
  EXPECT_EQ(progress.advance(3), 1U);
  EXPECT_EQ(progress.advance(4), 2U);
  EXPECT_EQ(progress.advance(5), 2U) << "nothing was announced behind it";
}

TEST(DeviceProgress, WhatWasAnnouncedBetweenTwoLooksIsFoundCompleteTogether) {
  DeviceProgress progress;
  for (std::uint64_t launch = 0; launch < 10; ++launch) announce(progress, launch);
  EXPECT_EQ(progress.advance(17), 0U);
  EXPECT_EQ(progress.advance(18), 9U);
}

TEST(DeviceProgress, ALaunchThatIsKnownToBeSubmittedIsCompleteWithItsOwnUse) {
  DeviceProgress progress;
  for (std::uint64_t launch = 0; launch < 10; ++launch) {
    announce(progress, launch);
    if (launch % 3 == 0) progress.note_submitted(2 * launch + 1, launch + 1);
  }
  EXPECT_EQ(progress.advance(0), 0U);
  EXPECT_EQ(progress.advance(1), 1U);
  EXPECT_EQ(progress.advance(6), 1U);
  EXPECT_EQ(progress.advance(7), 4U);
  EXPECT_EQ(progress.advance(13), 7U);
  EXPECT_EQ(progress.advance(19), 10U);
}

TEST(DeviceProgress, AHostThatIsVeryFarAheadIsFollowedInLargerSteps) {
  DeviceProgress progress;
  constexpr std::uint64_t kLaunches = 5000;
  for (std::uint64_t launch = 0; launch < kLaunches; ++launch) {
    announce(progress, launch);
    progress.advance(0);
  }
  std::uint64_t before = 0;
  for (std::uint64_t completed = 0; completed < 2 * kLaunches; ++completed) {
    const std::uint64_t launches = progress.advance(completed);
    EXPECT_GE(launches, before);
    EXPECT_LE(2 * launches, completed);
    before = launches;
  }
  EXPECT_EQ(before, kLaunches - 1);
}

TEST(DeviceProgress, AnotherPolicyCountsFromTheBeginning) {
  DeviceProgress progress;
  progress.note_launch(10, 10);
  EXPECT_EQ(progress.advance(10), 10U);
  progress.note_launch(12, 0);
  EXPECT_EQ(progress.advance(12), 0U);
  progress.note_launch(14, 1);
  EXPECT_EQ(progress.advance(14), 1U);
}

}  // namespace
}  // namespace superpipe
