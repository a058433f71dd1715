// How pages give way to other processes, sample by sample.
#include "residency/room/device_pressure.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>

namespace superpipe {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Bytes kTotal = 1000_MiB;
constexpr Bytes kHeadroom = 64_MiB;
constexpr Bytes kGranule = 2_MiB;

class DevicePressureTest : public ::testing::Test {
 protected:
  /// A sample 5 ms later, of a device on which others hold `others`.
  bool note(Bytes others) {
    now_ += milliseconds{5};
    return pressure_.note(kTotal, others, allowed_, now_);
  }
  [[nodiscard]] Bytes room() const { return allowed_ - pressure_.yielded(allowed_); }

  Bytes allowed_ = 800_MiB;
  DevicePressure pressure_{kHeadroom, kGranule};
  DevicePressure::TimePoint now_{seconds{10}};
};

TEST_F(DevicePressureTest, YieldsNothingWhileTheBudgetAndTheHeadroomFitTheDevice) {
  EXPECT_FALSE(note(136_MiB));
  EXPECT_EQ(pressure_.yielded(allowed_), Bytes{});
}

TEST_F(DevicePressureTest, YieldsAllThatOthersTakeAtOnce) {
  EXPECT_TRUE(note(500_MiB));
  EXPECT_EQ(room(), kTotal - 500_MiB - kHeadroom);
}

TEST_F(DevicePressureTest, LeavesTheHeadroomToTakeUpSmallChanges) {
  EXPECT_FALSE(note(136_MiB + 16_MiB));
  EXPECT_TRUE(note(136_MiB + 17_MiB));
}

TEST_F(DevicePressureTest, YieldsNoMoreThanThereIs) {
  EXPECT_TRUE(note(kTotal));
  EXPECT_EQ(room(), Bytes{});
}

TEST_F(DevicePressureTest, TakesNearlyAllBackWithinSomeSamplesAndTheRestAfterASecond) {
  note(600_MiB);
  for (int i = 0; i < 8; ++i) note(0_MiB);
  EXPECT_LE(pressure_.yielded(allowed_), 16_MiB);
  now_ += seconds{1};
  note(0_MiB);
  EXPECT_EQ(pressure_.yielded(allowed_), Bytes{});
  EXPECT_FALSE(note(0_MiB));
}

TEST_F(DevicePressureTest, TakesSmallGainsBackOnlyWhenNothingShrankForASecond) {
  note(600_MiB);
  EXPECT_FALSE(note(590_MiB));
  now_ += seconds{1};
  EXPECT_TRUE(note(590_MiB));
  EXPECT_EQ(room(), kTotal - 590_MiB - kHeadroom);
}

TEST_F(DevicePressureTest, MovesNothingForANeighbourThatAllocatesAndFreesLittle) {
  note(600_MiB);
  for (int i = 0; i < 150; ++i) EXPECT_FALSE(note(i % 2 == 0 ? 590_MiB : 610_MiB)) << i;
}

// Each sees the other's pages as another process's.
TEST_F(DevicePressureTest, TwoThatYieldShareWhatAThirdGaveBackWithoutSwinging) {
  std::array<DevicePressure, 2> pair{DevicePressure{kHeadroom, kGranule},
                                     DevicePressure{kHeadroom, kGranule}};
  std::array<Bytes, 2> pages{400_MiB, 400_MiB};
  const auto step = [&](Bytes third) {
    now_ += milliseconds{5};
    const std::array<Bytes, 2> before = pages;
    for (std::size_t i = 0; i < 2; ++i) {
      pair[i].note(kTotal, before[1 - i] + third, allowed_, now_);
      pages[i] = allowed_ - pair[i].yielded(allowed_);
    }
    return pages != before;
  };
  for (int i = 0; i < 500; ++i) step(400_MiB);
  const Bytes together = pages[0] + pages[1];
  EXPECT_LE(together, kTotal - 400_MiB);
  for (int i = 0; i < 500; ++i) step(0_MiB);
  EXPECT_GT(pages[0] + pages[1], together);
  EXPECT_LE(pages[0] + pages[1], kTotal);
  for (int i = 0; i < 500; ++i) EXPECT_FALSE(step(0_MiB)) << i;
}

TEST_F(DevicePressureTest, GivesNoWayWithWhatALaunchNeeds) {
  note(700_MiB);
  ASSERT_EQ(room(), 236_MiB);
  EXPECT_FALSE(pressure_.claim(200_MiB));
  EXPECT_TRUE(pressure_.claim(300_MiB));
  EXPECT_EQ(room(), 300_MiB);
  EXPECT_FALSE(pressure_.claim(300_MiB));
  note(900_MiB);
  EXPECT_EQ(room(), 300_MiB);
}

TEST_F(DevicePressureTest, ForgetsClaimsOnceNothingIsYielded) {
  note(700_MiB);
  (void)pressure_.claim(500_MiB);
  for (int i = 0; i < 300; ++i) note(0_MiB);
  ASSERT_EQ(pressure_.yielded(allowed_), Bytes{});
  note(700_MiB);
  EXPECT_EQ(room(), 236_MiB);
}

TEST_F(DevicePressureTest, FollowsABudgetThatChanges) {
  note(700_MiB);
  allowed_ = 100_MiB;
  EXPECT_EQ(pressure_.yielded(allowed_), Bytes{});
  allowed_ = 900_MiB;
  EXPECT_EQ(room(), 236_MiB);
}

}  // namespace
}  // namespace superpipe
