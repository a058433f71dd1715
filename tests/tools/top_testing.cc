#include "tests/tools/top_testing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <regex>
#include <sstream>

namespace superpipe::cli {

ProcessLook look_at(int pid, std::uint64_t seconds, Bytes pages) {
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
      EXPECT_THAT(type_line, ::testing::StartsWith("# TYPE " + match[1].str() + " ")) << line;
    } else {
      EXPECT_TRUE(std::regex_match(line, kComment)) << line;
      if (line.starts_with("# TYPE")) types.push_back(type_line = line);
    }
  }
  std::ranges::sort(types);
  EXPECT_TRUE(std::ranges::adjacent_find(types) == types.end()) << "described twice";
  EXPECT_EQ(text.back(), '\n');
}

}  // namespace superpipe::cli
