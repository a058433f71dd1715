#include "residency/room/overfull_launches.h"

#include <gtest/gtest.h>

#include <vector>

namespace superpipe {
namespace {

constexpr KernelId kCat{1}, kCopy{2};
constexpr BufferId kOne{1}, kOther{2}, kStale{3}, kUsed{4}, kUsedNext{5};
using Ids = std::vector<BufferId>;

class OverfullLaunchesTest : public ::testing::Test {
 protected:
  OverfullLaunches launches_;
};

TEST_F(OverfullLaunchesTest, SuspectsNothingAtTheFirstLaunch) {
  launches_.note(kCat, Ids{kOne}, Ids{kStale});
  EXPECT_FALSE(launches_.is_suspect(kCat, kStale));
  EXPECT_FALSE(launches_.is_suspect(kCopy, kStale));
}

TEST_F(OverfullLaunchesTest, SuspectsWhatStaysTheSameWhileTheOperandsChange) {
  launches_.note(kCat, Ids{kOne}, Ids{kUsed, kStale});
  launches_.note(kCat, Ids{kOther}, Ids{kStale, kUsedNext});
  EXPECT_TRUE(launches_.is_suspect(kCat, kStale));
  EXPECT_FALSE(launches_.is_suspect(kCat, kUsed));
  EXPECT_FALSE(launches_.is_suspect(kCat, kUsedNext));
}

TEST_F(OverfullLaunchesTest, LearnsNothingFromTheSameOperands) {
  launches_.note(kCat, Ids{kOne, kOther}, Ids{kStale});
  launches_.note(kCat, Ids{kOther, kOne}, Ids{kStale});
  EXPECT_FALSE(launches_.is_suspect(kCat, kStale));
}

TEST_F(OverfullLaunchesTest, KeepsSuspectsThroughALaunchOfTheSameOperands) {
  launches_.note(kCat, Ids{kOne}, Ids{kStale});
  launches_.note(kCat, Ids{kOther}, Ids{kStale});
  launches_.note(kCat, Ids{kOther}, Ids{kStale, kUsed});
  EXPECT_TRUE(launches_.is_suspect(kCat, kStale));
  EXPECT_FALSE(launches_.is_suspect(kCat, kUsed));
}

TEST_F(OverfullLaunchesTest, SuspectsNobodyAnyMoreWhoWasNotNamed) {
  launches_.note(kCat, Ids{kOne}, Ids{kStale});
  launches_.note(kCat, Ids{kOther}, Ids{kStale});
  launches_.note(kCat, Ids{kOne}, Ids{kUsed});
  launches_.note(kCat, Ids{kOther}, Ids{kStale});
  EXPECT_FALSE(launches_.is_suspect(kCat, kStale));
}

TEST_F(OverfullLaunchesTest, ComparesLaunchesOfTheSameKernelAlone) {
  launches_.note(kCat, Ids{kOne}, Ids{kStale});
  launches_.note(kCopy, Ids{kOther}, Ids{kStale});
  EXPECT_FALSE(launches_.is_suspect(kCat, kStale));
  EXPECT_FALSE(launches_.is_suspect(kCopy, kStale));
}

}  // namespace
}  // namespace superpipe
