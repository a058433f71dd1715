#include "profiler/run_summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/profiler/example_figures.h"

namespace superpipe {
namespace {

using ::superpipe::testing::streaming_run;
using ::testing::AllOf;
using ::testing::HasSubstr;

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

}  // namespace
}  // namespace superpipe
