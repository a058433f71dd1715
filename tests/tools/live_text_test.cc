#include "tools/superpipe/live_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/tools/top_testing.h"
#include "tools/superpipe/plain_text.h"

namespace superpipe::cli {
namespace {

TEST(ShortNumbers, TakeFewCharacters) {
  EXPECT_EQ(short_bytes(0), "0");
  EXPECT_EQ(short_bytes(512), "512");
  EXPECT_EQ(short_bytes(1536), "1.5K");
  EXPECT_EQ(short_bytes(16 << 20), "16M");
  EXPECT_EQ(short_bytes(1023.9 * (1 << 20)), "1G");
  EXPECT_EQ(short_bytes(3.94 * (1 << 30)), "3.9G");
  EXPECT_EQ(short_time(0), "0");
  EXPECT_EQ(short_time(17e-6), "17us");
  EXPECT_EQ(short_time(4.12e-3), "4.1ms");
  EXPECT_EQ(short_time(0.9999), "1s");
  EXPECT_EQ(short_time(1.34), "1.3s");
  EXPECT_EQ(short_time(7200), "120m");
  EXPECT_EQ(short_time(100 * 3600), "100h");
  EXPECT_EQ(short_time(1e18), ">99999h");
  EXPECT_EQ(short_count(999), "999");
  EXPECT_EQ(short_count(12'345), "12k");
  EXPECT_EQ(short_count(4.5e6), "4.5M");
  EXPECT_EQ(short_percent(0.121), "12%");
  EXPECT_EQ(short_percent(2.5), "250%");
  EXPECT_EQ(short_percent(1e9), ">999%");
  EXPECT_EQ(short_percent(-1), "0%");
}

TEST(Bar, FillsItsShare) {
  EXPECT_EQ(bar(0.5, 10), "[####....]");
  EXPECT_EQ(bar(0, 5), "[...]");
  EXPECT_EQ(bar(7, 5), "[###]");
  EXPECT_EQ(bar(-1, 5), "[...]");
  EXPECT_EQ(bar(std::nan(""), 5), "[...]");
  EXPECT_EQ(bar(1, 2), "");
}

TEST(HistoryBar, ShowsTheLatestValuesAsHeights) {
  EXPECT_EQ(history_bar({0, 1, 4, 8}, 8, 6, false), "   .-#");
  EXPECT_EQ(history_bar({0, 1, 4, 8}, 8, 2, false), "-#");
  EXPECT_EQ(history_bar({0, 1, 4, 8}, 8, 4, true), " ▁▄█");
  EXPECT_EQ(width_of(history_bar({0, 1, 4, 8}, 8, 6, true)), 6U);
  EXPECT_EQ(history_bar({}, 0, 3, false), "   ");
  EXPECT_EQ(history_bar({5, 0}, 0, 2, false), "  ");
}

TEST(LayerBar, HasACharacterForEachLayer) {
  LiveFigures figures{};
  EXPECT_EQ(layer_bar(figures, 10), "");
  figures.layers = 5;
  figures.layer_percent = {0, 100, 45, 3, 99};
  EXPECT_EQ(layer_bar(figures, 10), ".#419");
  figures.layer_percent = {0, 0, 100, 100, 100};
  figures.layers = 4;
  EXPECT_EQ(layer_bar(figures, 2), ".#");
  figures.layers = 0xFFFFFFFF;  // who lies
  EXPECT_EQ(width_of(layer_bar(figures, 1000)), kShownLayers);
}

TEST(CutTo, CountsColumnsAndNotBytes) {
  EXPECT_EQ(cut_to("a▁▂b", 3), "a▁▂");
  EXPECT_EQ(cut_to("ab", 5), "ab");
  EXPECT_EQ(width_of("a▁▂b"), 4U);
}

TEST(TextOf, NamesTheFolderInWhichProcessesAreLookedFor) {
  for (const LiveProblem problem : {LiveProblem::kNotManaged, LiveProblem::kOtherNamespace,
                                    LiveProblem::kDamaged, LiveProblem::kUnreadable}) {
    EXPECT_THAT(text_of(problem, 7, "/folder"), ::testing::HasSubstr(" /folder"));
  }
  EXPECT_EQ(no_processes("/folder"), "no process of yours runs under superpipe (/folder has none)");
}

TEST(PlainText, LeavesNothingThatSteersATerminal) {
  EXPECT_EQ(plain_text("a\x1b[2Jb\n\x80"), "a?[2Jb??");
}

}  // namespace
}  // namespace superpipe::cli
