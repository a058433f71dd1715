// Launches that wait for their records.
#include "interposer/cupti/marked_launches.h"

#include <gtest/gtest.h>

namespace superpipe {
namespace {

constexpr auto kMost = static_cast<std::uint32_t>(MarkedLaunches::kMost);

TEST(MarkedLaunches, GivesEachOnce) {
  MarkedLaunches launches;
  launches.add(5, {1, KernelId{9}, true});
  launches.add(6, {1, KernelId{8}, false});
  EXPECT_FALSE(launches.take(7));
  const auto first = launches.take(5);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->number, 1U);
  EXPECT_EQ(first->kernel, KernelId{9});
  EXPECT_TRUE(first->names_buffers);
  EXPECT_FALSE(launches.take(5));
  EXPECT_TRUE(launches.take(6));
}

TEST(MarkedLaunches, ForgetsTheOldestOfTooMany) {
  MarkedLaunches launches;
  for (std::uint32_t i = 0; i < kMost + 2; ++i) launches.add(i, {i, {}, true});
  EXPECT_FALSE(launches.take(0));
  EXPECT_FALSE(launches.take(1));
  EXPECT_TRUE(launches.take(2));
  EXPECT_TRUE(launches.take(kMost + 1));
}

// Those that were taken make room: a program may run for days.
TEST(MarkedLaunches, KeepsAllThatAreTakenInTime) {
  MarkedLaunches launches;
  for (std::uint32_t i = 0; i < 3 * kMost; ++i) {
    launches.add(i, {i, {}, true});
    if (i < 10) continue;
    ASSERT_TRUE(launches.take(i - 10)) << i;
  }
}

}  // namespace
}  // namespace superpipe
