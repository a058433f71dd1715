#include "tools/simgpu/driver/device/link_timeline.h"

#include <gtest/gtest.h>

namespace simgpu {
namespace {

using Direction = LinkTimeline::Direction;
constexpr Direction kDown = Direction::kHostToDevice;
constexpr Direction kUp = Direction::kDeviceToHost;

TEST(LinkTimeline, GivesEachDirectionFirstComeFirstServed) {
  LinkTimeline link{1};
  EXPECT_EQ(link.reserve(kDown, 100, 50).end, 150);
  const Slot second = link.reserve(kDown, 120, 50);
  EXPECT_EQ(second.start, 150);
  EXPECT_EQ(second.end, 200);
  link.push_back(kDown, 230);
  EXPECT_EQ(link.reserve(kDown, 0, 50).start, 230);
  link.push_back(kDown, 10);
  EXPECT_EQ(link.reserve(kDown, 0, 50).start, 280) << "an earlier end changes nothing";
}

TEST(LinkTimeline, FullDuplexSlowsNothing) {
  LinkTimeline link{1};
  link.reserve(kDown, 0, 1000);
  EXPECT_EQ(link.reserve(kUp, 0, 1000).end, 1000);
}

TEST(LinkTimeline, HalfDuplexLetsOneDirectionWait) {
  LinkTimeline link{0.5};
  link.reserve(kDown, 0, 1000);
  const Slot up = link.reserve(kUp, 0, 600);
  EXPECT_EQ(up.start, 0);
  EXPECT_EQ(up.end, 1600);
}

TEST(LinkTimeline, TheSecondCopyGetsWhatIsLeft) {
  LinkTimeline link{0.75};
  link.reserve(kDown, 0, 1000);
  // Half its speed for 1000, then alone.
  EXPECT_EQ(link.reserve(kUp, 0, 800).end, 1300);
  LinkTimeline inside{0.75};
  inside.reserve(kDown, 0, 1000);
  EXPECT_EQ(inside.reserve(kUp, 100, 200).end, 500);
  LinkTimeline before{0.75};
  before.reserve(kDown, 1000, 1000);
  EXPECT_EQ(before.reserve(kUp, 0, 1500).end, 2000) << "1000 alone, 500 at half speed";
  LinkTimeline apart{0.75};
  apart.reserve(kDown, 0, 1000);
  EXPECT_EQ(apart.reserve(kUp, 1000, 500).end, 1500);
}

TEST(LinkTimeline, ASteadyFlowBothWaysIsSharedFairly) {
  constexpr double kDuplex = 0.74;
  LinkTimeline link{kDuplex};
  constexpr int kCopies = 2000;
  Nanoseconds down = 0;
  Nanoseconds up = 0;
  int downs = 0;
  int ups = 0;
  // Two streams, each of which submits its next copy when its last one has ended.
  while (downs < kCopies && ups < kCopies) {
    if (down <= up) {
      down = link.reserve(kDown, down, 1000).end;
      ++downs;
    } else {
      up = link.reserve(kUp, up, 1000).end;
      ++ups;
    }
  }
  const double at_full_speed = static_cast<double>(downs + ups) * 1000 / 2;
  const auto took = static_cast<double>(std::max(down, up));
  EXPECT_NEAR(at_full_speed / took, kDuplex, 0.02);
  EXPECT_NEAR(static_cast<double>(downs) / ups, 1, 0.05);
}

}  // namespace
}  // namespace simgpu
