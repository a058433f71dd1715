#include "tools/superpipe/top_screen.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/tools/top_testing.h"

namespace superpipe::cli {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

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
  TopScreen screen_{"1", "/folder", false};
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
  EXPECT_THAT(text(), HasSubstr("/folder"));
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
  for (const char* const part :
       {"damaged, or was", "another program;", "start the process again"}) {
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

}  // namespace
}  // namespace superpipe::cli
