#include "tools/superpipe/probes/probe_runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "tools/superpipe/probes/driver.h"

namespace superpipe::cli {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;
using Outcome = ProbeResult::Outcome;

ProbeResult run(ProbeFunction function, milliseconds limit = seconds(60)) {
  const Probe probe{"T1", "test", "does it?", function};
  ProbeResult result = run_probe(probe, ProbeSetting{}, limit, nullptr);
  result.probe = nullptr;  // it does not outlive this function
  return result;
}

TEST(RunProbe, GivesAnswerAndFigures) {
  const ProbeResult result = run([](const ProbeSetting&, const ProbeReport& report) {
    report.figure("speed_gbps", 12.5);
    report.figure("rows", {1, 2});
    report.answer("yes: it does", true);
  });
  EXPECT_EQ(result.outcome, Outcome::kAnswered);
  EXPECT_EQ(result.answer, "yes: it does");
  EXPECT_EQ(result.holds, true);
  EXPECT_EQ(result.figures.dump(), R"({"speed_gbps":12.5,"rows":[1,2]})");
  EXPECT_EQ(result.reason, "");
}

TEST(RunProbe, KeepsWhatWasToldBeforeACrashAndSaysWhere) {
  const ProbeResult result = run([](const ProbeSetting&, const ProbeReport& report) {
    report.figure("first", 1);
    report.step("mapping");
    detail::begin_call("cuMemMap");
    std::fputs("driver: assertion failed\n", stderr);
    std::raise(SIGKILL);
  });
  EXPECT_EQ(result.outcome, Outcome::kCrashed);
  EXPECT_EQ(result.signal, SIGKILL);
  EXPECT_EQ(result.call, "cuMemMap");
  EXPECT_THAT(result.reason, HasSubstr("mapping"));
  EXPECT_THAT(result.reason, HasSubstr("assertion failed"));
  EXPECT_EQ(result.figures.value("first", 0), 1);
}

TEST(RunProbe, EndsAProbeThatHangs) {
  const ProbeResult result = run(
      [](const ProbeSetting&, const ProbeReport& report) {
        report.step("waiting for ever");
        pause();
      },
      milliseconds(200));
  EXPECT_EQ(result.outcome, Outcome::kTimedOut);
  EXPECT_THAT(result.reason, HasSubstr("waiting for ever"));
}

// The process that the probe started dies with it: the probe waits for it, and the limit ends both.
TEST(RunProbe, EndsWhatAProbeThatHangsHasStarted) {
  char name[] = "/tmp/superpipe-probe-XXXXXX";
  const int fd = mkstemp(name);
  ASSERT_GE(fd, 0);
  setenv("PROBE_TEST_FILE", name, 1);
  const ProbeResult result = run(
      [](const ProbeSetting&, const ProbeReport&) {
        const pid_t child = fork();
        if (child == 0) {
          pause();
          _exit(0);
        }
        std::ofstream(std::getenv("PROBE_TEST_FILE")) << child;
        waitpid(child, nullptr, 0);
      },
      milliseconds(300));
  pid_t child = 0;
  std::ifstream(name) >> child;
  std::remove(name);
  close(fd);
  EXPECT_EQ(result.outcome, Outcome::kTimedOut);
  ASSERT_GT(child, 0);
  // It is dead, or dead and not collected yet by whoever inherited it.
  std::string state = "gone";
  std::ifstream status("/proc/" + std::to_string(child) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("State:", 0) == 0) state = line;
  }
  EXPECT_TRUE(state == "gone" || state.find('Z') != std::string::npos ||
              state.find('X') != std::string::npos)
      << state;
}

TEST(RunProbe, TellsMissingThingsFromFailures) {
  EXPECT_EQ(run([](const ProbeSetting&, const ProbeReport&) {
              throw NotSupported("no such thing");
            }).outcome,
            Outcome::kNotSupported);
  const ProbeResult skipped =
      run([](const ProbeSetting&, const ProbeReport&) { throw Skipped("too little memory"); });
  EXPECT_EQ(skipped.outcome, Outcome::kSkipped);
  EXPECT_EQ(skipped.reason, "too little memory");
  const ProbeResult failed = run([](const ProbeSetting&, const ProbeReport&) {
    throw CallFailed("cuMemCreate", 2, "CUDA_ERROR_OUT_OF_MEMORY");
  });
  EXPECT_EQ(failed.outcome, Outcome::kFailed);
  EXPECT_EQ(failed.call, "cuMemCreate");
  EXPECT_EQ(failed.code, 2);
  EXPECT_EQ(
      run([](const ProbeSetting&, const ProbeReport&) { throw std::runtime_error("?"); }).outcome,
      Outcome::kFailed);
}

TEST(RunProbe, SaysThatAProbeEndedByItself) {
  const ProbeResult result = run([](const ProbeSetting&, const ProbeReport&) { _exit(0); });
  EXPECT_EQ(result.outcome, Outcome::kCrashed);
  EXPECT_THAT(result.reason, HasSubstr("ended by itself"));
}

TEST(NeedHostMemory, SkipsWhereLessMayBeUsed) {
  ProbeSetting setting;
  EXPECT_NO_THROW(need_host_memory(setting, 1000));  // not known: the system will say
  setting.host_bytes = 999;
  EXPECT_THROW(need_host_memory(setting, 1000), Skipped);
  setting.host_bytes = 1000;
  EXPECT_NO_THROW(need_host_memory(setting, 1000));
}

TEST(FindProbe, KnowsEachQuestionOnce) {
  ASSERT_EQ(all_probes().size(), 11U);
  for (const Probe& probe : all_probes()) EXPECT_EQ(find_probe(probe.id), &probe);
  EXPECT_EQ(find_probe("h10"), find_probe("H10"));
  EXPECT_EQ(find_probe("H"), nullptr);
  EXPECT_EQ(find_probe(""), nullptr);
}

}  // namespace
}  // namespace superpipe::cli
