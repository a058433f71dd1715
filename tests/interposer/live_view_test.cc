// What other processes see of this one, and what is said where they see nothing.
#include "interposer/reports/live_view.h"

#include <gtest/gtest.h>

namespace superpipe {
namespace {

TEST(LiveView, TheBudgetShownIsThatOfTheWholeProcess) {
  ResidencyManager::LiveState state{};
  state.counters.budget = 10_MiB;
  state.counters.launches = 7;
  const LiveFigures figures = live_figures_of(state, Configuration{}, {3_MiB, 2, 5e9});
  EXPECT_EQ(figures.budget, 13_MiB);
  EXPECT_EQ(figures.context, 3_MiB);
  EXPECT_EQ(figures.launches, 9U);
  EXPECT_EQ(figures.link_bytes_per_second, 5'000'000'000U);
  EXPECT_GT(figures.taken_ns, 0U);
}

TEST(LiveView, WithoutABudgetNoneIsShown) {
  const LiveFigures figures = live_figures_of({}, Configuration{}, {3_MiB, 0, std::nullopt});
  EXPECT_EQ(figures.budget, Bytes{});
  EXPECT_EQ(figures.link_bytes_per_second, 0U);
}

TEST(LiveView, TheLayersOfTheScheduleComeBeforeThoseThatWereAskedFor) {
  Configuration configuration;
  configuration.policy = PolicyKind::kNaive;
  configuration.k = 8;
  configuration.k_prime = 2;
  ResidencyManager::LiveState state{};
  EXPECT_EQ(live_figures_of(state, configuration, {}).k, 8U) << "nothing is scheduled yet";
  state.learned.k = 6;
  state.learned.k_prime = 3;
  const LiveFigures figures = live_figures_of(state, configuration, {});
  EXPECT_EQ(figures.k, 6U);
  EXPECT_EQ(figures.k_prime, 3U);
}

TEST(LiveView, APolicyThatCountsNoLayersShowsNoK) {
  Configuration configuration;
  configuration.policy = PolicyKind::kAuto;
  ResidencyManager::LiveState state{};
  state.learned.k = 6;
  EXPECT_EQ(live_figures_of(state, configuration, {}).k, 0U);
}

TEST(LiveView, TheLastPassIsShownWithWhatTheLinkAllows) {
  ResidencyManager::LiveState state{};
  state.counters.managed_limit = 1_MiB;
  state.learned.pass_bytes = 3_MiB;
  state.last_pass.emplace();
  state.last_pass->ms = 4;
  state.last_pass->stall_ms = 3.5;
  const LiveFigures figures = live_figures_of(state, Configuration{}, {Bytes{}, 0, 2e9});
  EXPECT_EQ(figures.pass_ns, 4'000'000U);
  EXPECT_EQ(figures.pass_stall_ns, 3'500'000U);
  EXPECT_EQ(figures.bound_ns, 1'048'576U) << "2 MiB at 2 GB/s, longer than the compute of 0.5 ms";
}

TEST(LiveView, OneReasonForBothIsSaidOnceAndSoIsOneAdvice) {
  EXPECT_EQ(words_of_being_alone("", "no folder"),
            "superpipe top and budget do not find this process: no folder");
  EXPECT_EQ(words_of_being_alone("no folder", "no folder"),
            "superpipe top and budget do not find this process, and host memory is not shared with "
            "your other processes, so that this one may take all that is available: no folder");
  EXPECT_EQ(words_of_being_alone("full; make room", "locked; make room"),
            "superpipe top and budget do not find this process, and host memory is not shared with "
            "your other processes, so that this one may take all that is available: locked; full; "
            "make room");
}

}  // namespace
}  // namespace superpipe
