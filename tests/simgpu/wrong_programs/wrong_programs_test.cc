// simgpu rejects every wrong program, and accepts its right twin and programs that only look wrong.
//
// simgpu_wrong_programs runs them all, each in processes of its own. --program=NAME [--right] runs
// one here, and says what came of it; --list says what each does wrong.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <string>
#include <string_view>

#include "tests/simgpu/wrong_programs/program.h"

namespace wrong_programs {
namespace {

/// How often a program is run again that came too early or too late for its own mistake.
constexpr int kAttempts = 10;

/// The answer of one run: what it printed last, or "signal N".
std::string run_once(const std::string& name, const std::vector<std::string>& environment,
                     bool ordered) {
  std::string command = "SIMGPU_KERNELS=" WRONG_PROGRAMS_PLUGIN " SIMGPU_MEMORY=256M ";
  for (const std::string& variable : environment) command += variable + " ";
  command += WRONG_PROGRAMS_PROGRAM " --program=" + name + (ordered ? " --right" : "");
  // Without a shell between, a signal is seen as one.
  FILE* const pipe = popen(("exec env " + command + " 2>/dev/null").c_str(), "r");
  if (pipe == nullptr) return "not started";
  std::array<char, 256> buffer{};
  std::string answer;
  while (std::fgets(buffer.data(), static_cast<int>(buffer.size()), pipe) != nullptr) {
    answer = buffer.data();
  }
  const int status = pclose(pipe);
  if (WIFSIGNALED(status)) return "signal " + std::to_string(WTERMSIG(status));
  if (WEXITSTATUS(status) != 0) return "exit code " + std::to_string(WEXITSTATUS(status));
  if (!answer.empty() && answer.back() == '\n') answer.pop_back();
  return answer;
}

std::string run_right(const WrongProgram& program) {
  return run_once(program.name, program.environment, true);
}

/// Whether `answer` is the rejection that `program` is to meet. `right` is its twin's answer.
bool is_rejection(const WrongProgram& program, const std::string& answer,
                  const std::string& right) {
  switch (program.rejection) {
    case Rejection::kOtherBytes:
      return answer == "error 700" || (answer.rfind("bytes ", 0) == 0 && answer != right);
    case Rejection::kIllegalAddress:
      return answer == "error 700";
    case Rejection::kInvalidValue:
      return answer == "error 1";
    case Rejection::kSegmentationFault:
    case Rejection::kProtectionFault:
      return answer == "signal " + std::to_string(SIGSEGV);
  }
  return false;
}

/// Of the wrong program, whose right twin answers `right`.
std::string run_wrong(const WrongProgram& program, const std::string& right) {
  // The environment makes something last that no gate can hold, and during which the mistake has to
  // be made. On a busy machine it may not have begun by then.
  const bool may_come_early = !program.environment.empty();
  std::string answer;
  for (int i = 0; i < kAttempts; ++i) {
    answer = run_once(program.name, program.environment, false);
    const bool came_early = may_come_early && !is_rejection(program, answer, right);
    if (answer != "late" && !came_early) break;
  }
  return answer;
}

bool has_protection_keys() {
  const int key = pkey_alloc(0, 0);
  return key >= 0 && pkey_free(key) == 0;
}

class WrongPrograms : public ::testing::TestWithParam<std::string> {
 protected:
  const WrongProgram& program() const {
    return *std::find_if(programs().begin(), programs().end(),
                         [](const auto& each) { return each.name == GetParam(); });
  }
};

TEST_P(WrongPrograms, IsRejectedAndItsTwinIsNot) {
  const std::string right = run_right(program());
  EXPECT_THAT(right, ::testing::StartsWith("bytes ")) << "the right twin was rejected";
  EXPECT_NE(right, "bytes wrong") << "the right twin";
  EXPECT_EQ(run_right(program()), right) << "the right twin differs from run to run";
  if (program().rejection == Rejection::kProtectionFault && !has_protection_keys()) {
    GTEST_SKIP() << "this processor has no memory protection keys";
  }
  const std::string wrong = run_wrong(program(), right);
  EXPECT_TRUE(is_rejection(program(), wrong, right))
      << program().mistake << " Its answer: " << wrong << "; its twin's: " << right;
}

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const WrongProgram& program : programs()) all.push_back(program.name);
  return all;
}

INSTANTIATE_TEST_SUITE_P(Each, WrongPrograms, ::testing::ValuesIn(names()),
                         [](const auto& name) { return name.param; });

class RightPrograms : public ::testing::TestWithParam<std::string> {
 protected:
  const RightProgram& program() const {
    return *std::find_if(right_programs().begin(), right_programs().end(),
                         [](const auto& each) { return each.name == GetParam(); });
  }
};

TEST_P(RightPrograms, IsAccepted) {
  const std::string answer = run_once(program().name, program().environment, true);
  if (program().rejected_because.empty()) {
    EXPECT_EQ(answer, "bytes right") << program().look;
    return;
  }
  EXPECT_NE(answer, "bytes right") << "it is accepted now: take the reason off the list";
  GTEST_SKIP() << "rejected, because " << program().rejected_because;
}

std::vector<std::string> right_names() {
  std::vector<std::string> all;
  for (const RightProgram& program : right_programs()) all.push_back(program.name);
  return all;
}

INSTANTIATE_TEST_SUITE_P(Each, RightPrograms, ::testing::ValuesIn(right_names()),
                         [](const auto& name) { return name.param; });

TEST(WrongProgramList, HasEveryProgramOnceAndIsNotCutShort) {
  EXPECT_GE(programs().size(), 80U);
  const std::vector<std::string> all = names();
  EXPECT_EQ(std::set<std::string>(all.begin(), all.end()).size(), all.size());
}

}  // namespace
}  // namespace wrong_programs

int main(int argc, char** argv) {
  std::string name;
  bool right = false;
  bool list = false;
  constexpr std::string_view kProgram = "--program=";
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument.substr(0, kProgram.size()) == kProgram) name = argument.substr(kProgram.size());
    right = right || argument == "--right";
    list = list || argument == "--list";
  }
  if (list) {
    for (const auto& program : wrong_programs::programs()) {
      std::printf("%-45s %s\n", program.name.c_str(), program.mistake.c_str());
    }
    for (const auto& program : wrong_programs::right_programs()) {
      std::printf("%-45s (right) %s\n", program.name.c_str(), program.look.c_str());
    }
    return 0;
  }
  if (!name.empty()) return wrong_programs::run_program(name, right);
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
