#include "profiler/run_summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "tests/profiler/example_figures.h"

namespace superpipe {
namespace {

using ::superpipe::testing::streaming_run;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(SummaryText, SaysWhatAUserAsksFor) {
  EXPECT_THAT(summary_text(streaming_run()),
              AllOf(HasSubstr("policy superpipeline, k 2, k' 1, layers 8"),
                    HasSubstr("peak device memory 38 MiB (without superpipe 134 MiB), 72 % less"),
                    HasSubstr("moved 144 MiB to the device"),
                    HasSubstr("3 passes of 1800.00 ms, 1.20 times the bound of 1500.00 ms"),
                    HasSubstr("stalled 56 %")));
}

TEST(SummaryText, DoesNotClaimPassesThatWereNotSeen) {
  RunFigures figures = streaming_run();
  figures.residency.pass_ms.clear();
  figures.residency.learned = {};
  const std::string text = summary_text(figures);
  EXPECT_THAT(text, HasSubstr("no repeated pass found"));
  EXPECT_THAT(text, HasSubstr("layers not found"));
}

TEST(SummaryText, MissesNoLayersUnderAPolicyThatDoesWithoutThem) {
  RunFigures figures = streaming_run();
  figures.policy = PolicyKind::kAuto;
  EXPECT_THAT(summary_text(figures), HasSubstr("policy auto, layers 8, allocators"));
  figures.residency.learned = {};
  EXPECT_THAT(summary_text(figures), HasSubstr("policy auto, allocators"));
}

TEST(SummaryText, NamesNoBoundThatIsNotKnown) {
  RunFigures figures = streaming_run();
  figures.link_bytes_per_second.reset();
  const std::string text = summary_text(figures);
  EXPECT_THAT(text, HasSubstr("3 passes of 1800.00 ms, stalled 56 %\n"));
  EXPECT_THAT(text, Not(HasSubstr("link")));
}

TEST(SummaryText, NamesNoKUnderPolicyResident) {
  RunFigures figures = streaming_run();
  figures.policy = PolicyKind::kResident;
  EXPECT_THAT(summary_text(figures), HasSubstr("policy resident, layers 8, allocators async\n"));
}

TEST(SummaryText, ClaimsNoSavingWhereThereIsNone) {
  RunFigures figures = streaming_run();
  figures.residency.peak_device_bytes = 132_MiB;
  EXPECT_THAT(summary_text(figures),
              HasSubstr("peak device memory 134 MiB (without superpipe 134 MiB)\n"));
}

TEST(SummaryText, NamesTheSmallestBudgetThatRunsWhatWasRefused) {
  RunFigures figures = streaming_run();
  figures.budget = 40_MiB;
  figures.context_bytes = 1_MiB;
  EXPECT_THAT(summary_text(figures), Not(HasSubstr("smallest budget")));
  figures.residency.worst_refusal = {"multiply(float*)", 48_MiB, 12_MiB};
  EXPECT_THAT(
      summary_text(figures),
      HasSubstr("the budget of 42991616 bytes (41 MiB) was too small for a launch of kernel "
                "multiply(float*), which needs 50331648 bytes (48 MiB) at once; the "
                "smallest budget that would run it: 55574528 bytes (53 MiB)\n"));
  figures.residency.worst_refusal->kernel.clear();
  EXPECT_THAT(summary_text(figures), HasSubstr("too small for one operation, which needs"));
}

TEST(SummaryText, BeginsEveryLineWithTheSameWord) {
  std::istringstream lines(summary_text(streaming_run()));
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    EXPECT_EQ(line.rfind("superpipe: ", 0), 0U) << line;
  }
  EXPECT_EQ(count, 4);
}

}  // namespace
}  // namespace superpipe
