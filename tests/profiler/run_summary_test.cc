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

std::string summary_text(const RunFigures& figures) {
  return superpipe::summary_text(figures, pass_times(figures), ProcessName{});
}

TEST(SummaryText, SaysWhatAUserAsksFor) {
  EXPECT_THAT(
      summary_text(streaming_run()),
      AllOf(HasSubstr("policy superpipeline, k 2, layers 8"),
            HasSubstr("peak device memory 38 MiB (without superpipe 134 MiB), 72 % less"),
            HasSubstr("moved 144 MiB to the device"),
            HasSubstr("3 passes of 2000.00 ms, 1.33 times the physical bound of 1500.00 ms, "
                      "1.09 times the windowed bound of 1828.57 ms; link 0.07 GB/s"),
            HasSubstr("launches waited for transfers during 1200.00 ms of a pass (stalled "
                      "60 %), of which better prefetching could avoid up to 14 %\n")));
}

using ::superpipe::testing::following;

TEST(SummaryText, SaysHowFarAPlanWasFollowed) {
  RunFigures figures = streaming_run();
  EXPECT_THAT(summary_text(figures), Not(HasSubstr("plan")));
  figures.residency.learned.following = following(40, false);
  EXPECT_THAT(summary_text(figures),
              HasSubstr("\nsuperpipe: followed the plan for 40 of 40 launches\n"));
  figures.residency.learned.following = following(20, true);
  EXPECT_THAT(summary_text(figures),
              HasSubstr("followed the plan for 20 of 40 launches, and left it at launch 31, where "
                        "the program did something else\n"));
  figures.residency.learned.following.followed = 1;
  EXPECT_THAT(summary_text(figures), HasSubstr("left it at launch 31: it is of another program\n"));
}

TEST(SummaryText, DoesNotClaimPassesThatWereNotSeen) {
  RunFigures figures = streaming_run();
  figures.residency.measured_passes.clear();
  figures.residency.learned = {};
  const std::string text = summary_text(figures);
  EXPECT_THAT(text, HasSubstr("no repeated pass found"));
  EXPECT_THAT(text, HasSubstr("layers not found"));
}

// What repeats within a pass before that is known is found in milliseconds, again and again.
TEST(SummaryText, CountsThePassesWhoseTimeItTells) {
  RunFigures figures = streaming_run();
  auto& passes = figures.residency.measured_passes;
  for (int at = 0; at < 10; ++at) passes.insert(passes.begin(), {0.5, 0, 0, 2});
  figures.residency.learned.passes = 13;
  EXPECT_THAT(summary_text(figures), HasSubstr("superpipe: 3 passes of "));
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
  EXPECT_THAT(text, HasSubstr("3 passes of 2000.00 ms; no bound, because the link was never "
                              "measured\n"));
  EXPECT_THAT(text, HasSubstr("(stalled 60 %)\n"));
}

TEST(SummaryText, NamesOneBoundWhereOnlyOneIsKnown) {
  const RunFigures figures = streaming_run();
  PassTimes times = pass_times(figures);
  times.windowed_bound_ms.reset();
  const std::string text = superpipe::summary_text(figures, times, ProcessName{});
  EXPECT_THAT(text, HasSubstr("the physical bound of 1500.00 ms; link"));
  EXPECT_THAT(text, Not(HasSubstr("windowed")));
}

TEST(SummaryText, SaysThatTheBudgetChanged) {
  RunFigures figures = streaming_run();
  EXPECT_THAT(summary_text(figures), Not(HasSubstr("budget changed")));
  figures.residency.budget_changes = 2;
  figures.budget = 40_MiB;
  figures.context_bytes = 2_MiB;
  EXPECT_THAT(summary_text(figures), HasSubstr("the budget changed 2 times, at last to 42 MiB\n"));
}

TEST(SummaryText, SaysHowManyLaunchesDidWithoutWhatStructsNamed) {
  RunFigures figures = streaming_run();
  EXPECT_THAT(summary_text(figures), Not(HasSubstr("did without")));
  figures.residency.left_out_launches = 1;
  EXPECT_THAT(summary_text(figures), HasSubstr("superpipe: 1 launch did without buffers"));
  figures.residency.left_out_launches = 2;
  EXPECT_THAT(summary_text(figures), HasSubstr("superpipe: 2 launches did without buffers"));
}

TEST(SummaryText, SaysHowManyAllocationsHadNoRoom) {
  RunFigures figures = streaming_run();
  EXPECT_THAT(summary_text(figures), Not(HasSubstr("too small to be moved")));
  figures.residency.refused_allocations = 1;
  EXPECT_THAT(summary_text(figures), HasSubstr("superpipe: 1 allocation too small to be moved"));
  figures.residency.refused_allocations = 2;
  EXPECT_THAT(summary_text(figures), HasSubstr("superpipe: 2 allocations too small to be moved"));
}

TEST(SummaryText, SaysHowManyLaunchesWereRefused) {
  RunFigures figures = streaming_run();
  EXPECT_THAT(summary_text(figures), Not(HasSubstr("refused")));
  figures.refused_operations = 1;
  EXPECT_THAT(summary_text(figures), HasSubstr("superpipe: 1 launch or copy was refused"));
  figures.refused_operations = 2;
  EXPECT_THAT(summary_text(figures), HasSubstr("superpipe: 2 launches or copies were refused"));
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
  EXPECT_EQ(count, 5);
}

}  // namespace
}  // namespace superpipe
