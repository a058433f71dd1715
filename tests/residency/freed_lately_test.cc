// What counts as freed a moment ago.
#include "residency/pieces/freed_lately.h"

#include <gtest/gtest.h>

namespace superpipe::testing {
namespace {

TEST(FreedLately, CountsInSpansOfUses) {
  EXPECT_EQ(FreedLately::span_of(0), FreedLately::span_of(31));
  EXPECT_EQ(FreedLately::span_of(31) + 1, FreedLately::span_of(32));
}

TEST(FreedLately, CountsWhatWasUsedInThisSpanAndTheOneBefore) {
  FreedLately lately;
  lately.note(4, 5, 1_MiB);
  lately.note(5, 5, 2_MiB);
  EXPECT_EQ(lately.bytes(5), 3_MiB);
  EXPECT_EQ(lately.bytes(6), 2_MiB);
  EXPECT_EQ(lately.bytes(7), Bytes{});
  EXPECT_TRUE(lately.is_lately(5, 6));
  EXPECT_FALSE(lately.is_lately(5, 7));
}

TEST(FreedLately, CountsNothingThatWasUsedLongBeforeItWasFreed) {
  FreedLately lately;
  lately.note(1, 5, 1_MiB);
  EXPECT_EQ(lately.bytes(5), Bytes{});
  lately.forget(1, 5, 1_MiB);
  EXPECT_EQ(lately.bytes(5), Bytes{});
}

TEST(FreedLately, ForgetsWhatHasGoneFromTheCache) {
  FreedLately lately;
  lately.note(5, 5, 1_MiB);
  lately.note(5, 5, 2_MiB);
  lately.forget(5, 6, 1_MiB);
  EXPECT_EQ(lately.bytes(6), 2_MiB);
  lately.note(6, 6, 4_MiB);
  lately.forget(5, 7, 2_MiB);
  EXPECT_EQ(lately.bytes(7), 4_MiB) << "what no longer counts is not subtracted";
}

TEST(FreedLately, LetsAllGoThatIsThereOnceALaunchHasWaitedInVain) {
  FreedLately lately;
  lately.note(5, 5, 1_MiB);
  lately.let_go(5);
  EXPECT_EQ(lately.bytes(5), Bytes{});
  EXPECT_FALSE(lately.is_lately(5, 5));
  lately.note(5, 5, 1_MiB);
  EXPECT_EQ(lately.bytes(5), Bytes{}) << "used before it was let go";
  lately.note(6, 6, 2_MiB);
  EXPECT_EQ(lately.bytes(6), 2_MiB);
}

}  // namespace
}  // namespace superpipe::testing
