#include "policy/launch_sequence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

namespace superpipe {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr BufferId kWeight{0};
constexpr BufferId kGradient{1};
constexpr BufferId kEmptyBuffer{2};
constexpr BufferId kUnknownBuffer{3};
constexpr std::array kBufferBytes{1_MiB, 2_MiB, 0_MiB};

TEST(WorkingSets, NameEachBufferOnce) {
  const std::array twice{kGradient, kWeight, kGradient};
  const std::array again{kGradient};
  const std::array launches{TimedLaunch{{}, twice}, TimedLaunch{{}, again}};
  const WorkingSets sets({launches, kBufferBytes});
  ASSERT_EQ(sets.launches(), 2U);
  EXPECT_THAT(sets.buffers(0), ElementsAre(kGradient, kWeight));
  EXPECT_THAT(sets.buffers(1), ElementsAre(kGradient));
  EXPECT_EQ(sets.bytes(0), 3_MiB);
  EXPECT_EQ(sets.bytes(1), 2_MiB);
  EXPECT_EQ(sets.largest(), 3_MiB);
  EXPECT_EQ(sets.accesses(), 3U);
  EXPECT_EQ(sets.first_access(1), 2U);
}

TEST(WorkingSets, LeaveOutBuffersWithoutBytes) {
  const std::array named{kEmptyBuffer, kWeight, kUnknownBuffer};
  const std::array nothing{kEmptyBuffer};
  const std::array launches{TimedLaunch{{}, named}, TimedLaunch{{}, nothing}};
  const WorkingSets sets({launches, kBufferBytes});
  EXPECT_THAT(sets.buffers(0), ElementsAre(kWeight));
  EXPECT_THAT(sets.buffers(1), IsEmpty());
  EXPECT_EQ(sets.bytes(1), Bytes{});
}

TEST(WorkingSets, AreNoneWithoutLaunches) {
  const WorkingSets sets({{}, kBufferBytes});
  EXPECT_EQ(sets.launches(), 0U);
  EXPECT_EQ(sets.accesses(), 0U);
  EXPECT_EQ(sets.largest(), Bytes{});
}

}  // namespace
}  // namespace superpipe
