// What counts as the same output, and what as a time.
#include "tools/superpipe/output_comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace superpipe::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Lines = std::vector<std::string>;

TEST(WithoutTimes, FindsTimesRatesAndClocks) {
  for (const char* const time : {"13.096 ms", "2s", "1e-3 seconds", "0:01:07.5", "12:34",
                                 "31.5 it/s", "2.5GB/s", "400/sec", "7 \xC2\xB5s", "3 min"}) {
    EXPECT_EQ(without_times("pass 2: " + std::string(time) + ", loss 0.5"),
              "pass 2: <time>, loss 0.5")
        << time;
  }
  EXPECT_EQ(without_times("1.5 s/it"), "<time>/it");
}

TEST(WithoutTimes, LeavesOtherNumbersAlone) {
  for (const char* const line : {"", "loss 0.25 after 3 steps", "layer2s", "v1.2 s", "0x7f s5",
                                 "3 s5", "12 msx", "1:2", "4 / s", "5", "9 MB", "1e s"}) {
    EXPECT_EQ(without_times(line), line);
  }
}

TEST(OutputBaseline, ComparesLineByLine) {
  OutputBaseline baseline({"a", "b", "c"}, OutputRule::kLines);
  baseline.add({"a", "b", "other"});
  EXPECT_EQ(baseline.varying(), 1U);
  EXPECT_THAT(baseline.differing({"a", "b", "third"}), IsEmpty());
  EXPECT_THAT(baseline.differing({"a", "x", "c", "more"}), ElementsAre(1, 3));
  EXPECT_THAT(baseline.differing({"a"}), ElementsAre(1));
}

TEST(OutputBaseline, AllowsMoreOrFewerLinesWhereAllVary) {
  OutputBaseline baseline({"a", "b"}, OutputRule::kLines);
  baseline.add({"x"});
  EXPECT_THAT(baseline.differing({"y", "z", "w"}), IsEmpty());
}

TEST(OutputBaseline, LeavesOutTimesOrAllOfIt) {
  const Lines first = {"pass 1: 3 ms", "sum 7"};
  const Lines slower = {"pass 1: 25.661 ms", "sum 7"};
  const Lines wrong = {"pass 1: 3 ms", "sum 8"};
  const OutputBaseline lines(first, OutputRule::kLines);
  const OutputBaseline no_times(first, OutputRule::kNoTimes);
  const OutputBaseline ignored(first, OutputRule::kIgnore);
  EXPECT_THAT(lines.differing(slower), ElementsAre(0));
  EXPECT_THAT(no_times.differing(slower), IsEmpty());
  EXPECT_THAT(no_times.differing(wrong), ElementsAre(1));
  EXPECT_THAT(ignored.differing(wrong), IsEmpty());
}

TEST(OutputRule, HasANameEach) {
  for (const OutputRule rule : kOutputRules) EXPECT_EQ(output_rule_named(name_of(rule)), rule);
  EXPECT_FALSE(output_rule_named("none"));
}

}  // namespace
}  // namespace superpipe::cli
