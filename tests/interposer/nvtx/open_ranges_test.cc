// Ranges of several domains nest on a thread.
#include "interposer/nvtx/open_ranges.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <vector>

namespace superpipe {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class OpenRangesTest : public ::testing::Test {
 protected:
  int push(const char* domain, TraceIndex text) {
    return ranges_.push({domain, nullptr, text}, begin_);
  }
  int pop(const char* domain) { return ranges_.pop(domain, begin_, end_); }

  OpenRanges ranges_;
  std::vector<int> told_;  // texts that begin, and, less than 0, that end
  const std::function<void(const OpenRanges::Range&)> begin_ = [this](const auto& range) {
    told_.push_back(static_cast<int>(range.text));
  };
  const std::function<void(const OpenRanges::Range&)> end_ = [this](const auto& range) {
    told_.push_back(-static_cast<int>(range.text));
  };
};

constexpr const char* kOne = "one";
constexpr const char* kTwo = "two";

TEST_F(OpenRangesTest, NestInADomain) {
  EXPECT_EQ(push(kOne, 1), 0);
  EXPECT_EQ(push(kOne, 2), 1);
  EXPECT_EQ(pop(kOne), 1);
  EXPECT_EQ(pop(kOne), 0);
  EXPECT_THAT(told_, ElementsAre(1, 2, -2, -1));
}

TEST_F(OpenRangesTest, APopWithoutAPushIsNothing) {
  EXPECT_EQ(pop(kOne), -1);
  push(kOne, 1);
  EXPECT_EQ(pop(kTwo), -1);
  EXPECT_THAT(told_, ElementsAre(1));
}

TEST_F(OpenRangesTest, OfOtherDomainsEndAndBeginAgain) {
  EXPECT_EQ(push(kOne, 1), 0);
  EXPECT_EQ(push(kTwo, 2), 0);
  EXPECT_EQ(push(kTwo, 3), 1);
  EXPECT_EQ(pop(kOne), 0);
  EXPECT_THAT(told_, ElementsAre(1, 2, 3, -3, -2, -1, 2, 3));
  told_.clear();
  EXPECT_EQ(pop(kTwo), 1);
  EXPECT_EQ(pop(kTwo), 0);
  EXPECT_THAT(told_, ElementsAre(-3, -2));
}

TEST_F(OpenRangesTest, DeepOnesAreOnlyCounted) {
  constexpr int kMost = static_cast<int>(OpenRanges::kMost);
  for (int i = 0; i < kMost; ++i) push(kOne, 1);
  told_.clear();
  EXPECT_EQ(push(kOne, 2), kMost);
  EXPECT_EQ(push(kOne, 2), kMost + 1);
  EXPECT_EQ(pop(kOne), kMost + 1);
  EXPECT_EQ(pop(kOne), kMost);
  EXPECT_THAT(told_, IsEmpty());
  EXPECT_EQ(pop(kOne), kMost - 1);
  EXPECT_THAT(told_, ElementsAre(-1));
}

}  // namespace
}  // namespace superpipe
