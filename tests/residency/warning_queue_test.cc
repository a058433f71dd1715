// Warnings, each given once.
#include "residency/warning_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <new>
#include <string>

namespace superpipe::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

auto text(const char* words) {
  return [words] { return std::string(words); };
}

TEST(WarningQueue, GivesTheWarningsInTheirOrder) {
  WarningQueue warnings;
  EXPECT_TRUE(warnings.empty());
  warnings.once("b", text("first"));
  warnings.once("a", text("second"));
  EXPECT_FALSE(warnings.empty());
  EXPECT_THAT(warnings.take(), ElementsAre("first", "second"));
}

TEST(WarningQueue, GivesEachWarningToOneTakerOnly) {
  WarningQueue warnings;
  warnings.once("a", text("first"));
  EXPECT_THAT(warnings.take(), ElementsAre("first"));
  EXPECT_TRUE(warnings.empty());
  EXPECT_THAT(warnings.take(), IsEmpty());
  warnings.once("b", text("second"));
  EXPECT_THAT(warnings.take(), ElementsAre("second"));
}

TEST(WarningQueue, WarnsOnceUnderAKeyEvenAfterTheWarningWasTaken) {
  WarningQueue warnings;
  warnings.once("a", text("first"));
  warnings.once("a", text("again"));
  EXPECT_THAT(warnings.take(), ElementsAre("first"));
  warnings.once("a", text("once more"));
  EXPECT_TRUE(warnings.empty());
}

TEST(WarningQueue, ComparesKeysByTheirText) {
  WarningQueue warnings;
  warnings.once("device 1", text("first"));
  warnings.once("device " + std::to_string(1), text("again"));
  warnings.once("device " + std::to_string(2), text("second"));
  EXPECT_THAT(warnings.take(), ElementsAre("first", "second"));
}

TEST(WarningQueue, WritesNoTextThatNobodyWillRead) {
  WarningQueue warnings;
  int written = 0;
  const auto counted = [&written] {
    ++written;
    return std::string("text");
  };
  warnings.once("a", counted);
  warnings.once("a", counted);
  EXPECT_EQ(written, 1);
}

TEST(WarningQueue, LeavesOutAWarningForWhichThereIsNoMemory) {
  WarningQueue warnings;
  warnings.once("a", text("first"));
  warnings.once("b", []() -> std::string { throw std::bad_alloc(); });
  warnings.once("c", text("third"));
  EXPECT_THAT(warnings.take(), ElementsAre("first", "third"));
  warnings.once("b", text("second"));
  EXPECT_THAT(warnings.take(), ElementsAre("second")) << "it was never queued";
}

}  // namespace
}  // namespace superpipe::testing
