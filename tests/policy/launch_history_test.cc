#include "policy/launch_history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace superpipe {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const std::vector<BufferId> kOne = {BufferId{1}};
const std::vector<BufferId> kTwo = {BufferId{2}, BufferId{3}};

TEST(LaunchHistory, ReturnsWhatItRecorded) {
  LaunchHistory history;
  EXPECT_TRUE(history.record(KernelId{7}, kOne));
  EXPECT_TRUE(history.record(KernelId{8}, {}));
  EXPECT_TRUE(history.record(KernelId{9}, kTwo));
  const std::vector<LaunchRecord> launches = history.launches(0, 3);
  ASSERT_THAT(launches, SizeIs(3));
  EXPECT_EQ(launches[0].kernel, KernelId{7});
  EXPECT_THAT(launches[0].buffers, ElementsAre(BufferId{1}));
  EXPECT_THAT(launches[1].buffers, IsEmpty());
  EXPECT_THAT(history.launches(2, 3).front().buffers, ElementsAre(BufferId{2}, BufferId{3}));
}

TEST(LaunchHistory, RefusesMoreThanItsBounds) {
  LaunchHistory history(/*max_launches=*/2, /*max_buffers=*/3);
  EXPECT_TRUE(history.record(KernelId{1}, kTwo));
  EXPECT_FALSE(history.record(KernelId{1}, kTwo));
  EXPECT_TRUE(history.record(KernelId{1}, kOne));
  EXPECT_FALSE(history.record(KernelId{1}, {}));
  EXPECT_EQ(history.size(), 2U);
  history.clear();
  EXPECT_TRUE(history.record(KernelId{1}, kTwo));
}

}  // namespace
}  // namespace superpipe
