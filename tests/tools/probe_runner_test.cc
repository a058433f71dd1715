#include "tools/superpipe/probes/probe_runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>

#include "tools/superpipe/probes/driver.h"

namespace superpipe::cli {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
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

TEST(RunProbe, KeepsAnAnswerWhenWhatComesBehindItCrashes) {
  const ProbeResult result = run([](const ProbeSetting&, const ProbeReport& report) {
    report.answer("yes: it does", true);
    report.step("touching it from the host");
    std::raise(SIGKILL);
  });
  EXPECT_EQ(result.outcome, Outcome::kAnswered);
  EXPECT_EQ(result.answer, "yes: it does");
  EXPECT_EQ(result.holds, true);
  EXPECT_EQ(result.reason, "");
  EXPECT_EQ(result.signal, SIGKILL);
  EXPECT_THAT(result.figures.value("after_the_answer", ""), HasSubstr("touching it from the host"));
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

// Held open by the process that the probe starts.
int pipe_ends[2];

// The process that the probe started dies with it: the probe waits for it, and the limit ends both.
TEST(RunProbe, EndsWhatAProbeThatHangsHasStarted) {
  ASSERT_EQ(pipe(pipe_ends), 0);
  const ProbeResult result = run(
      [](const ProbeSetting&, const ProbeReport&) {
        const pid_t child = fork();
        if (child == 0) {
          if (write(pipe_ends[1], "x", 1) == 1) pause();
          _exit(0);
        }
        waitpid(child, nullptr, 0);
      },
      milliseconds(300));
  close(pipe_ends[1]);
  EXPECT_EQ(result.outcome, Outcome::kTimedOut);
  char byte = 0;
  EXPECT_EQ(read(pipe_ends[0], &byte, 1), 1);
  // Closed once it is dead. A minute is for a machine under load; a process left behind never is.
  pollfd closed{pipe_ends[0], POLLIN, 0};
  ASSERT_EQ(poll(&closed, 1, 60'000), 1);
  EXPECT_EQ(read(pipe_ends[0], &byte, 1), 0);
  close(pipe_ends[0]);
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
  ASSERT_EQ(all_probes().size(), 30U);
  for (const Probe& probe : all_probes()) EXPECT_EQ(find_probe(probe.id), &probe);
  EXPECT_EQ(find_probe("h10"), find_probe("H10"));
  EXPECT_EQ(find_probe("H"), nullptr);
  EXPECT_EQ(find_probe(""), nullptr);
}

}  // namespace
}  // namespace superpipe::cli
