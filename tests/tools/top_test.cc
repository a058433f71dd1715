// What superpipe top makes of looks at processes, without a terminal and without processes.
#include <gmock/gmock.h>
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <regex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tools/superpipe/live_text.h"
#include "tools/superpipe/live_watch.h"
#include "tools/superpipe/top_model.h"
#include "tools/superpipe/top_output.h"
#include "tools/superpipe/top_screen.h"

namespace superpipe::cli {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

constexpr std::uint64_t kSecond = 1'000'000'000;

/// A look at process `pid`, `seconds` after the clock began.
ProcessLook look_at(int pid, std::uint64_t seconds, Bytes pages = 3_MiB) {
  ProcessLook look;
  look.pid = pid;
  look.start_time = 1;
  look.program = "python3";
  look.description = {PolicyKind::kAuto, 48_MiB, BudgetAnswer::kChanged};
  look.figures = {16_MiB, 12_MiB, pages, 20_MiB};
  look.figures.taken_ns = seconds * kSecond;
  return look;
}

ProcessLook problem_at(int pid, LiveProblem problem) {
  ProcessLook look;
  look.pid = pid;
  look.problem = problem;
  return look;
}

std::vector<int> pids_of(const TopModel& model) {
  std::vector<int> pids;
  for (const TopRow& row : model.rows()) pids.push_back(row.look.pid);
  return pids;
}

std::string joined(const std::vector<ScreenLine>& lines) {
  std::string text;
  for (const ScreenLine& line : lines) text += line.text + "\n";
  return text;
}

// ---- rates --------------------------------------------------------------------------------------

TEST(RatesBetween, AreDifferencesOverTheProcesssOwnTime) {
  LiveFigures before = look_at(1, 10).figures;
  LiveFigures after = look_at(1, 12).figures;
  before.h2d = 1_MiB;
  after.h2d = 9_MiB;
  after.d2h = 2_MiB;
  after.launches = 100;
  after.passes = 3;
  after.demand_fetches = 2;
  after.prefetches = 6;
  after.clean_evictions = 1;
  after.write_backs = 1;
  after.stall_ns = kSecond / 2;
  const auto rates = rates_between(before, after);
  ASSERT_TRUE(rates.has_value());
  EXPECT_DOUBLE_EQ(rates->seconds, 2);
  EXPECT_DOUBLE_EQ(rates->h2d, 4 << 20);
  EXPECT_DOUBLE_EQ(rates->d2h, 1 << 20);
  EXPECT_DOUBLE_EQ(rates->launches, 50);
  EXPECT_DOUBLE_EQ(rates->passes, 1.5);
  EXPECT_DOUBLE_EQ(rates->fetches, 4);
  EXPECT_DOUBLE_EQ(rates->evictions, 1);
  EXPECT_DOUBLE_EQ(rates->stall, 0.25);
}

TEST(RatesBetween, AreNoneWithoutTimeOrWhereCountsBecomeLess) {
  const LiveFigures figures = look_at(1, 10).figures;
  EXPECT_EQ(rates_between(figures, figures), std::nullopt);
  EXPECT_EQ(rates_between(look_at(1, 11).figures, figures), std::nullopt);
  LiveFigures before = figures;
  before.launches = 5;
  EXPECT_EQ(rates_between(before, look_at(1, 11).figures), std::nullopt);
}

// ---- the model ----------------------------------------------------------------------------------

TEST(TopModel, HasRatesFromTheSecondAnswerOn) {
  TopModel model;
  model.update({look_at(7, 1)});
  EXPECT_FALSE(model.rows()[0].rates.has_value());
  ProcessLook next = look_at(7, 2);
  next.figures.h2d = 1_MiB;
  model.update({next});
  ASSERT_TRUE(model.rows()[0].rates.has_value());
  EXPECT_DOUBLE_EQ(model.rows()[0].rates->h2d, 1 << 20);
  model.update({next});  // the same figures once more: it has not answered anew
  EXPECT_DOUBLE_EQ(model.rows()[0].rates->h2d, 1 << 20);
  EXPECT_THAT(model.rows()[0].fetch.values(), SizeIs(1));
}

TEST(TopModel, HasNoRatesOfAProcessThatDoesNotAnswer) {
  TopModel model;
  model.update({look_at(7, 1)});
  model.update({look_at(7, 2)});
  ProcessLook silent = look_at(7, 2);
  silent.answers = false;
  model.update({silent});
  EXPECT_FALSE(model.rows()[0].rates.has_value());
}

TEST(TopModel, DoesNotTakeAnotherProcessOfTheSameIdForTheOneBefore) {
  TopModel model;
  model.update({look_at(7, 1)});
  ProcessLook other = look_at(7, 2);
  other.start_time = 99;
  model.update({other});
  EXPECT_FALSE(model.rows()[0].rates.has_value());
  EXPECT_THAT(model.rows()[0].pages.values(), SizeIs(1));
}

TEST(TopModel, KeepsAsMuchHistoryAsIsShown) {
  TopModel model;
  for (std::uint64_t second = 1; second < 2 * History::kLength; ++second) {
    model.update({look_at(7, second, Bytes{second})});
  }
  EXPECT_THAT(model.rows()[0].pages.values(), SizeIs(History::kLength));
  EXPECT_DOUBLE_EQ(model.rows()[0].pages.largest(), 2.0 * History::kLength - 1);
}

TEST(TopModel, OrdersByWhatIsWanted) {
  TopModel model;
  model.update({look_at(1, 1), look_at(2, 1), look_at(3, 1), problem_at(4, LiveProblem::kDamaged)});
  ProcessLook first = look_at(1, 2, 2_MiB);
  ProcessLook second = look_at(2, 2, 4_MiB);
  ProcessLook third = look_at(3, 2, 3_MiB);
  first.figures.h2d = 5_MiB;
  third.figures.stall_ns = 7;
  model.update({first, second, third, problem_at(4, LiveProblem::kDamaged)});
  EXPECT_THAT(pids_of(model), ElementsAre(1, 2, 3, 4));
  model.next_order();
  EXPECT_EQ(model.order(), TopOrder::kPages);
  EXPECT_THAT(pids_of(model), ElementsAre(2, 3, 1, 4));
  model.next_order();
  EXPECT_EQ(model.order(), TopOrder::kFetch);
  EXPECT_THAT(pids_of(model), ElementsAre(1, 2, 3, 4));
  model.next_order();
  EXPECT_EQ(model.order(), TopOrder::kStall);
  EXPECT_THAT(pids_of(model), ElementsAre(3, 1, 2, 4));
  model.next_order();
  EXPECT_EQ(model.order(), TopOrder::kPid);
}

TEST(TopModel, KeepsTheChoiceWithItsProcess) {
  TopModel model;
  EXPECT_EQ(model.chosen(), nullptr);
  model.move_choice(1);
  model.update({look_at(1, 1, 1_MiB), look_at(2, 1, 2_MiB), look_at(3, 1, 3_MiB)});
  model.move_choice(1);
  EXPECT_EQ(model.chosen()->look.pid, 2);
  model.next_order();  // 3, 2, 1
  EXPECT_EQ(model.chosen()->look.pid, 2);
  model.move_choice(100);
  EXPECT_EQ(model.chosen()->look.pid, 1);
  model.update({look_at(1, 2), look_at(4, 2, 4_MiB)});
  EXPECT_EQ(model.chosen()->look.pid, 1);
  model.update({look_at(4, 3)});
  EXPECT_EQ(model.chosen()->look.pid, 4);
  model.move_choice(-100);
  EXPECT_EQ(model.chosen_index(), 0U);
  model.update({});
  EXPECT_EQ(model.chosen(), nullptr);
}

TEST(TopRow, ComparesTheLastPassWithItsBound) {
  TopRow row{look_at(1, 1)};
  EXPECT_EQ(row.over_bound(), std::nullopt);
  row.look.figures.pass_ns = 300;
  EXPECT_EQ(row.over_bound(), std::nullopt);
  row.look.figures.bound_ns = 200;
  EXPECT_EQ(row.over_bound(), 1.5);
}

// ---- numbers and bars ---------------------------------------------------------------------------

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

TEST(PlainText, LeavesNothingThatSteersATerminal) {
  EXPECT_EQ(plain_text("a\x1b[2Jb\n\x80"), "a?[2Jb??");
}

// ---- the screen ---------------------------------------------------------------------------------

class TopScreenTest : public ::testing::Test {
 protected:
  void show(const std::vector<ProcessLook>& looks) { model_.update(looks); }
  [[nodiscard]] std::string text(std::size_t width = 80, std::size_t height = 24) const {
    return joined(screen_.lines(model_, width, height));
  }
  void type(const std::string& keys) {
    for (const char key : keys) screen_.press(key, model_);
  }

  TopModel model_;
  TopScreen screen_{"1", false};
};

TEST_F(TopScreenTest, ShowsAllOfAProcess) {
  ProcessLook look = look_at(4711, 1);
  LiveFigures& now = look.figures;
  now.context = 2_MiB;
  now.passthrough = 1_MiB;
  now.pinned_host = 5_MiB;
  now.host_limit = 10_MiB;
  now.layers = 4;
  now.layer_percent = {100, 50, 0, 0};
  now.k = 2;
  now.k_prime = 1;
  now.pass_ns = 41'000'000;
  now.pass_stall_ns = 3'000'000;
  now.bound_ns = 38'000'000;
  now.link_bytes_per_second = std::uint64_t{9} << 30;
  now.h2d = 12_GiB;
  now.prefetches = 1000;
  now.demand_fetches = 24;
  show({look});
  look.figures.taken_ns = 2 * kSecond;
  look.figures.h2d += 1_GiB;
  look.figures.stall_ns = kSecond / 4;
  show({look});
  const std::string shown = text();
  for (const char* const part : {"superpipe top: 1 process; every 1 s",
                                 "PID",
                                 "4711",
                                 "python3",
                                 "auto",
                                 "3M",
                                 "16M",
                                 "1G",
                                 "25%",
                                 "41ms",
                                 "1.08x",
                                 "pages 3M of 12M, 20M live",
                                 "budget 16M, context 2M",
                                 "left to the driver 1M, device 48M",
                                 "pinned 5M of 10M",
                                 "4, k 2, k' 1 |#5..|",
                                 "of that stalled 3ms; at least 38ms (1.08x); link 9G/s",
                                 "13G in, 0 out",
                                 "1k fetches (24 on demand)",
                                 "fetch/s",
                                 "most 1G",
                                 "q quit"}) {
    EXPECT_THAT(shown, HasSubstr(part));
  }
}

TEST_F(TopScreenTest, FitsEveryTerminal) {
  std::vector<ProcessLook> looks;
  for (int pid = 1; pid < 40; ++pid) looks.push_back(look_at(4'194'300 + pid, 1));
  looks.push_back(problem_at(50, LiveProblem::kOtherVersion));
  show(looks);
  model_.move_choice(30);
  for (const std::size_t width : {1U, 2U, 10U, 79U, 80U, 81U, 300U}) {
    for (std::size_t height = 0; height < 60; ++height) {
      const auto lines = screen_.lines(model_, width, height);
      EXPECT_EQ(lines.size(), height);
      for (const ScreenLine& line : lines) EXPECT_LE(width_of(line.text), width);
      // The chosen process is seen wherever there is a line for it.
      if (width < 20 || height < 4) continue;
      EXPECT_THAT(lines,
                  Contains(Field(&ScreenLine::text, AllOf(HasSubstr(">"), HasSubstr("419")))))
          << width << "x" << height;
    }
  }
  EXPECT_THAT(table(model_), Contains(SizeIs(80))) << "a whole row";
  EXPECT_THAT(table(model_), Not(Contains(SizeIs(::testing::Gt(80U)))));
}

TEST_F(TopScreenTest, NamesWhatCannotBeShown) {
  ProcessLook silent = look_at(5, 1);
  silent.answers = false;
  show({problem_at(1, LiveProblem::kOtherVersion), problem_at(2, LiveProblem::kDamaged),
        problem_at(3, LiveProblem::kOtherNamespace), problem_at(4, LiveProblem::kUnreadable),
        silent});
  const std::string shown = text();
  for (const char* const part :
       {"1 not answering", "(another version of superpipe)", "(damaged segment)",
        "(in another container)", "(cannot be looked at)", "(not answering)"}) {
    EXPECT_THAT(shown, HasSubstr(part));
  }
}

TEST_F(TopScreenTest, SaysThatThereIsNobody) {
  EXPECT_THAT(text(), HasSubstr("no process of yours"));
  EXPECT_FALSE(screen_.press('b', model_).quits);
  EXPECT_TRUE(screen_.press('q', model_).quits);
}

TEST_F(TopScreenTest, ChoosesByKeys) {
  show({look_at(1, 1), look_at(2, 1), look_at(3, 1)});
  type("jj");
  EXPECT_EQ(model_.chosen()->look.pid, 3);
  type("k");
  EXPECT_EQ(model_.chosen()->look.pid, 2);
  screen_.press(kUpKey, model_);
  EXPECT_EQ(model_.chosen()->look.pid, 1);
  screen_.press(kPageDownKey, model_);
  EXPECT_EQ(model_.chosen()->look.pid, 3);
  EXPECT_THAT(text(), HasSubstr("python3, process 3: auto"));
}

TEST_F(TopScreenTest, AsksForABudget) {
  show({look_at(1, 1), look_at(2, 1)});
  type("jb12X");
  EXPECT_THAT(text(),
              HasSubstr("new budget of process 2 (SIZE; Enter gives it, Esc does not): 12X_"));
  screen_.press(kBackspaceKey, model_);
  type("M");
  const KeyResult result = screen_.press(kEnterKey, model_);
  EXPECT_EQ(result.pid, 2);
  EXPECT_EQ(result.size, "12M");
  EXPECT_THAT(text(), HasSubstr("q quit"));
}

TEST_F(TopScreenTest, AsksForNoBudgetThatIsNone) {
  show({look_at(1, 1)});
  type("bq");  // a letter of the size, not the key
  EXPECT_EQ(screen_.press(kEnterKey, model_).pid, 0);
  EXPECT_THAT(text(), HasSubstr("'q' is no size"));
  type("b0");
  EXPECT_EQ(screen_.press(kEnterKey, model_).pid, 0);
  type("b");
  EXPECT_EQ(screen_.press(kEnterKey, model_).pid, 0);
  type("b1G");
  EXPECT_FALSE(screen_.press(kEscapeKey, model_).quits);
  EXPECT_EQ(screen_.press(kEnterKey, model_).pid, 0);
}

TEST_F(TopScreenTest, SaysWhyThereCanBeNoOtherBudget) {
  ProcessLook look = look_at(1, 1);
  look.description.refusal = BudgetAnswer::kCountsLayers;
  show({look, problem_at(2, LiveProblem::kDamaged)});
  type("b");
  EXPECT_THAT(text(), HasSubstr("keeps the number of layers"));
  type("jb");
  // What does not fit a line takes several.
  std::string shown = text(50);
  std::ranges::replace(shown, '\n', ' ');
  for (const char* const part : {"is damaged", "another program;", "start the", "process again"}) {
    EXPECT_THAT(shown, HasSubstr(part));
  }
}

TEST_F(TopScreenTest, HelpsUntilAKeyIsPressed) {
  show({look_at(1, 1)});
  type("?");
  EXPECT_THAT(text(), HasSubstr("give it another budget"));
  EXPECT_THAT(text(80, 22), HasSubstr("Any key goes back."));
  type("q");  // goes back, and no further
  EXPECT_THAT(text(), Not(HasSubstr("give it another budget")));
}

TEST_F(TopScreenTest, SaysWhatItIsToldUntilAKeyIsPressed) {
  screen_.say("the budget is 12 MiB now");
  EXPECT_THAT(text(), HasSubstr("the budget is 12 MiB now"));
  screen_.press(kResizeKey, model_);
  EXPECT_THAT(text(), HasSubstr("the budget is 12 MiB now"));
  type("j");
  EXPECT_THAT(text(), Not(HasSubstr("the budget is 12 MiB now")));
}

// ---- what programs read -------------------------------------------------------------------------

// All lines are comments or samples, and each name is described once, before its first sample.
void expect_is_prometheus(const std::string& text) {
  static const std::regex kComment(
      "# (HELP superpipe_[a-z0-9_]+ .+|TYPE superpipe_[a-z0-9_]+ "
      "(gauge|counter))");
  static const std::regex kSample(
      "(superpipe_[a-z0-9_]+)\\{[a-z]+=\"([^\"\\\\]|\\\\.)*\"(,[a-z]+=\"([^\"\\\\]|\\\\.)*\")*\\} "
      "-?[0-9.]+(e[+-][0-9]+)?");
  std::istringstream lines(text);
  std::string type_line;
  std::vector<std::string> types;
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (std::regex_match(line, match, kSample)) {
      EXPECT_THAT(type_line, StartsWith("# TYPE " + match[1].str() + " ")) << line;
    } else {
      EXPECT_TRUE(std::regex_match(line, kComment)) << line;
      if (line.starts_with("# TYPE")) types.push_back(type_line = line);
    }
  }
  std::ranges::sort(types);
  EXPECT_TRUE(std::ranges::adjacent_find(types) == types.end()) << "described twice";
  EXPECT_EQ(text.back(), '\n');
}

TEST(TopJson, TellsAllOfAProcess) {
  TopModel model;
  ProcessLook look = look_at(1, 1);
  look.figures.layers = 2;
  look.figures.layer_percent = {100, 7};
  model.update({look, problem_at(2, LiveProblem::kOtherVersion)});
  look.figures.taken_ns = 2 * kSecond;
  look.figures.h2d = 1_MiB;
  model.update({look, problem_at(2, LiveProblem::kOtherVersion)});
  const std::string text = top_json(model, 1.5);
  EXPECT_THAT(text, Not(HasSubstr("\n")));
  const auto json = nlohmann::json::parse(text);
  EXPECT_EQ(json["time"], 1.5);
  ASSERT_EQ(json["processes"].size(), 2U);
  const auto& process = json["processes"][0];
  EXPECT_EQ(process["pid"], 1);
  EXPECT_EQ(process["state"], "running");
  EXPECT_EQ(process["policy"], "auto");
  EXPECT_EQ(process["budget_bytes"], 16 << 20);
  EXPECT_EQ(process["layers"]["percent_on_device"], nlohmann::json({100, 7}));
  EXPECT_TRUE(process["layers"]["k"].is_null());
  EXPECT_TRUE(process["last_pass"]["ms"].is_null());
  EXPECT_EQ(process["counts"]["h2d_bytes"], 1 << 20);
  EXPECT_EQ(process["rates"]["h2d_bytes_per_second"], 1 << 20);
  EXPECT_EQ(json["processes"][1],
            nlohmann::json({{"pid", 2}, {"program", ""}, {"state", "other_version"}}));
}

TEST(TopJson, SaysNothingOfWhatIsNotKnown) {
  TopModel model;
  ProcessLook look = look_at(1, 1);
  look.answers = false;
  look.figures.budget = Bytes{};
  look.figures.limit = Bytes{~std::uint64_t{0}};
  model.update({look});
  const auto process = nlohmann::json::parse(top_json(model, 0))["processes"][0];
  EXPECT_EQ(process["state"], "not_answering");
  for (const char* const key : {"budget_bytes", "limit_bytes", "layers", "rates"}) {
    EXPECT_TRUE(process[key].is_null()) << key;
  }
}

TEST(TopPrometheus, IsInTheTextFormat) {
  TopModel model;
  expect_is_prometheus(top_prometheus(model));
  ProcessLook look = look_at(1, 1);
  look.program = "a\"b\\c";
  look.figures.h2d = 3_GiB;
  look.figures.stall_ns = kSecond / 2;
  model.update({look, look_at(2, 1), problem_at(3, LiveProblem::kDamaged)});
  const std::string text = top_prometheus(model);
  expect_is_prometheus(text);
  const std::string labels = R"(pid="1",program="a\"b\\c",policy="auto")";
  EXPECT_THAT(text, HasSubstr("superpipe_h2d_bytes_total{" + labels + "} 3221225472\n"));
  EXPECT_THAT(text, HasSubstr("superpipe_stall_seconds_total{" + labels + "} 0.5\n"));
  EXPECT_THAT(text, HasSubstr("superpipe_fetches_total{" + labels + ",kind=\"demand\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("superpipe_processes{state=\"damaged\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("superpipe_up{pid=\"2\""));
  EXPECT_THAT(text, Not(HasSubstr("pid=\"3\"")));
  EXPECT_THAT(text, Not(HasSubstr("superpipe_last_pass_seconds{"))) << "none was measured";
}

// The check of the format rejects what is not in it.
TEST(TopPrometheus, IsHeldToTheFormat) {
  const std::string good = "# TYPE superpipe_x gauge\nsuperpipe_x{a=\"b\"} 1\n";
  expect_is_prometheus(good);
  for (const std::string bad :
       {"superpipe_x{a=\"b\"} 1\n", "# TYPE superpipe_x gauge\nsuperpipe_x{a=\"b\"c\"} 1\n",
        "# TYPE superpipe_x gauge\n# TYPE superpipe_x gauge\n", "nonsense\n"}) {
    ::testing::TestPartResultArray failures;
    {
      const ::testing::ScopedFakeTestPartResultReporter reporter(
          ::testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &failures);
      expect_is_prometheus(bad);
    }
    EXPECT_GT(failures.size(), 0) << bad;
  }
}

// ---- looks at segments --------------------------------------------------------------------------

/// A folder that stands for /dev/shm, with a segment of this process and who answers for it.
class LiveWatchTest : public ::testing::Test {
 protected:
  LiveWatchTest() {
    char name[] = "/tmp/live-watch-XXXXXX";
    folder_ = ::mkdtemp(name);
    create();
  }
  ~LiveWatchTest() override {
    stop();
    std::filesystem::remove_all(folder_);
  }
  void create() {
    std::string problem;
    segment_ = LiveSegment::create({PolicyKind::kAuto, 16_GiB}, problem, folder_);
    ASSERT_NE(segment_, nullptr) << problem;
  }
  void answer_requests() {
    answering_ = true;
    answerer_ = std::thread([this] {
      LiveFigures figures{};
      while (answering_) {
        segment_->wait_for_request(std::chrono::milliseconds{100});
        if (const auto request = segment_->next_request()) {
          ++figures.launches;
          figures.taken_ns += kSecond;
          segment_->publish(figures);
          segment_->answer(*request, BudgetAnswer::kChanged);
        }
      }
    });
  }
  void stop() {
    answering_ = false;
    if (answerer_.joinable()) answerer_.join();
  }
  [[nodiscard]] std::string path() const {
    return live_segment_path(::geteuid(), ::getpid(), folder_);
  }
  [[nodiscard]] std::string read() const {
    std::ifstream file(path(), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  // Writes in place, so that the segment stays the same file.
  void write(const std::string& bytes) const {
    std::fstream file(path(), std::ios::binary | std::ios::in | std::ios::out);
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }

  std::string folder_;
  std::unique_ptr<LiveSegment> segment_;
  std::atomic<bool> answering_{false};
  std::thread answerer_;
};

TEST_F(LiveWatchTest, GetsFreshFiguresAtEachLook) {
  answer_requests();
  LiveWatch watch(std::nullopt, folder_);
  for (std::uint64_t look = 1; look < 5; ++look) {
    const auto looks = watch.look(std::chrono::seconds{20});
    ASSERT_THAT(looks, SizeIs(1));
    EXPECT_EQ(looks[0].pid, ::getpid());
    EXPECT_TRUE(looks[0].answers);
    EXPECT_EQ(looks[0].figures.launches, look);
    EXPECT_EQ(looks[0].program, process_name(::getpid()));
  }
}

TEST_F(LiveWatchTest, WaitsForWhoDoesNotAnswerOnceAndNotAgain) {
  LiveWatch watch(::getpid(), folder_);
  EXPECT_FALSE(watch.look(std::chrono::milliseconds{1000})[0].answers);
  // The test's time limit would end a wait.
  EXPECT_FALSE(watch.look(std::chrono::hours{1})[0].answers);
  answer_requests();
  // Who answers late is found out by its figures.
  while (!watch.look(std::chrono::milliseconds{0})[0].answers) std::this_thread::yield();
}

TEST_F(LiveWatchTest, ForgetsWhoHasGone) {
  LiveWatch watch(std::nullopt, folder_);
  ASSERT_THAT(watch.look(std::chrono::milliseconds{0}), SizeIs(1));
  segment_.reset();
  EXPECT_THAT(watch.look(std::chrono::milliseconds{0}), IsEmpty());
  EXPECT_THAT(LiveWatch(::getpid(), folder_).look(std::chrono::milliseconds{0}), IsEmpty());
}

TEST_F(LiveWatchTest, NamesASegmentThatIsCutShort) {
  std::filesystem::resize_file(path(), 100);
  LiveWatch watch(std::nullopt, folder_);
  const auto looks = watch.look(std::chrono::milliseconds{0});
  ASSERT_THAT(looks, SizeIs(1));
  EXPECT_EQ(looks[0].problem, LiveProblem::kDamaged);
  std::filesystem::resize_file(path(), 4096);
}

// Whatever stands in the segment: the screen has its size, and programs can read what is written
// for them.
TEST_F(LiveWatchTest, NoBytesInASegmentBreakWhatIsShownOfIt) {
  const std::string sound = read();
  std::mt19937 random(7);
  LiveWatch watch(std::nullopt, folder_);
  TopModel model;
  TopScreen screen("1", true);
  int shown = 0;
  for (int round = 0; round < 1000; ++round) {
    std::string bytes = sound;
    for (auto change = 1 + random() % 3; change > 0; --change) {
      const auto at = random() % 8 == 0 ? random() % 88 : 116 + random() % 440;
      const char kinds[] = {static_cast<char>(random()), '\xFF', '\x7F', '\x01'};
      bytes[at] = kinds[random() % std::size(kinds)];
    }
    // Of a changed start it would be swept away as another process's.
    std::copy(sound.begin() + 24, sound.begin() + 32, bytes.begin() + 24);
    write(bytes);
    model.update(watch.look(std::chrono::milliseconds{0}));
    if (!model.rows().empty() && !model.rows()[0].look.problem) ++shown;
    for (const ScreenLine& line : screen.lines(model, 80, 24)) {
      EXPECT_LE(width_of(line.text), 80U);
      EXPECT_TRUE(std::ranges::none_of(
          line.text, [](char c) { return std::iscntrl(static_cast<unsigned char>(c)) != 0; }));
    }
    for (const std::string& line : table(model)) EXPECT_LE(line.size(), 80U);
    EXPECT_FALSE(nlohmann::json::parse(top_json(model, 0), nullptr, false).is_discarded());
    expect_is_prometheus(top_prometheus(model));
  }
  EXPECT_GT(shown, 250) << "the bytes were too wild to get anywhere";
  write(sound);
}

}  // namespace
}  // namespace superpipe::cli
