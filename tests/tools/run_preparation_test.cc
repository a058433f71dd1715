#include "tools/superpipe/run_preparation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace superpipe::cli {
namespace {

TEST(ReasonAgainstSimulating, IsThatGlibcIsOlder) {
  for (const char* const older : {"2.31", "2.35", "2.9", "1.99"}) {
    const std::string reason = reason_against_simulating(older, "2.36");
    EXPECT_NE(reason.find(std::string("glibc is ") + older + ","), std::string::npos) << reason;
    EXPECT_NE(reason.find("glibc 2.36 or newer"), std::string::npos) << reason;
    EXPECT_EQ(std::count(reason.begin(), reason.end(), '\n'), 0);
  }
}

TEST(ReasonAgainstSimulating, IsNoneFromTheOldestOn) {
  for (const char* const newer : {"2.36", "2.36.1", "2.41", "2.100", "3.0"}) {
    EXPECT_EQ(reason_against_simulating(newer, "2.36"), "");
  }
}

TEST(ReasonAgainstSimulating, IsNoneWhereThereIsNoLimit) {
  EXPECT_EQ(reason_against_simulating("2.31", ""), "");
}

}  // namespace
}  // namespace superpipe::cli
