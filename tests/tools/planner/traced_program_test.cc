// Programs as their traces tell them.
#include "tools/superpipe/planner/traced_program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tests/tools/planner/written_trace.h"

namespace superpipe::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using testing::program_of;
using testing::WrittenTrace;

TEST(TracedProgramTest, TimesThatNobodyTookAreThoseOfTheKernelsOtherLaunches) {
  WrittenTrace trace;
  const BufferId small = trace.allocate(2_MiB);
  const BufferId large = trace.allocate(8_MiB);
  trace.launch(1, {small}, 100'000);
  trace.launch(1, {large}, 0);
  trace.launch(2, {small}, 0);
  const TracedProgram program = program_of(trace);
  const auto compute = [&program](std::size_t launch) {
    return program.steps()[program.step_of_launch(launch)].compute_us;
  };
  EXPECT_FLOAT_EQ(compute(0), 100);
  EXPECT_FLOAT_EQ(compute(1), 400) << "four times the bytes";
  EXPECT_FLOAT_EQ(compute(2), 100) << "as fast as all others";
  EXPECT_NEAR(program.measured_share(), 1.0 / 6, 1e-6);
}

// The machine did something else meanwhile; launches of eight times the bytes do take long.
TEST(TracedProgramTest, ALaunchThatOnceTookFarTooLongMakesNoOtherLonger) {
  WrittenTrace trace;
  const BufferId small = trace.allocate(2_MiB);
  const BufferId large = trace.allocate(16_MiB);
  for (int i = 0; i < 38; ++i) trace.launch(1, {small}, i == 20 ? 454'000'000 : 3'000'000);
  trace.launch(1, {large}, 24'000'000);
  trace.launch(1, {small}, 0);
  const TracedProgram program = program_of(trace);
  const auto compute = [&program](std::size_t launch) {
    return program.steps()[program.step_of_launch(launch)].compute_us;
  };
  EXPECT_FLOAT_EQ(compute(20), 3'000);
  EXPECT_FLOAT_EQ(compute(38), 24'000);
  EXPECT_FLOAT_EQ(compute(39), 3'000);
}

TEST(TracedProgramTest, ATimeOfSeveralLaunchesIsDividedByWhatTheyName) {
  WrittenTrace trace;
  const BufferId small = trace.allocate(2_MiB);
  const BufferId large = trace.allocate(6_MiB);
  trace.launch(1, {small}, 0);
  trace.launch(2, {large}, 0);
  trace.add(TraceKernelTime{{2}, 0, 80'000, 2});
  const TracedProgram program = program_of(trace);
  EXPECT_FLOAT_EQ(program.steps()[program.step_of_launch(0)].compute_us, 20);
  EXPECT_FLOAT_EQ(program.steps()[program.step_of_launch(1)].compute_us, 60);
}

// Launches that name nothing have the number of the last that does.
TEST(TracedProgramTest, ATimeIsOfTheLaunchThatNamesBuffers) {
  WrittenTrace trace;
  const BufferId buffer = trace.allocate(2_MiB);
  trace.launch(1, {buffer}, 0);
  trace.launch_of_nothing(2);
  trace.launch_of_nothing(2);
  trace.launch(3, {buffer}, 70'000);
  trace.launch_of_nothing(2);
  const TracedProgram program = program_of(trace);
  EXPECT_FLOAT_EQ(program.steps()[program.step_of_launch(1)].compute_us, 70);
  EXPECT_FLOAT_EQ(program.steps()[program.step_of_launch(0)].compute_us, 70) << "as fast";
}

TEST(TracedProgramTest, LaunchesOfNothingTakeAsLongAsThoseOfTheirKernelThatWereTimed) {
  WrittenTrace trace;
  const BufferId buffer = trace.allocate(2_MiB);
  trace.launch(1, {buffer}, 50'000);
  trace.launch_of_nothing(2);
  trace.add(TraceKernelTime{{1}, 0, 30'000, 0, 2});
  trace.launch_of_nothing(2);
  trace.add(TraceKernelTime{{1}, 0, 10'000, 0, 2});
  trace.launch(1, {buffer}, 0);
  const TracedProgram program = program_of(trace);
  std::vector<float> times;
  for (const TracedStep& step : program.steps()) {
    if (step.kind == TracedStep::Kind::kLaunch) times.push_back(step.compute_us);
  }
  EXPECT_THAT(times, ::testing::ElementsAre(50, 20, 20, 50));
  EXPECT_FALSE(program.times_are_fitted());
}

TEST(TracedProgramTest, LaunchesOfNothingTakeAsLongAsThoseAtTheLikeOfTheirPlace) {
  WrittenTrace trace;
  const BufferId small = trace.allocate(2_MiB);
  const BufferId large = trace.allocate(8_MiB);
  for (int pass = 0; pass < 3; ++pass) {
    const bool is_timed = pass < 2;
    for (const BufferId buffer : {small, large}) {
      trace.launch(1, {buffer}, 50'000);
      trace.launch_of_nothing(2);
      const auto number = static_cast<std::uint64_t>(2 * pass + (buffer == small ? 1 : 2));
      const std::uint64_t time = buffer == small ? 10'000 : 40'000;
      if (is_timed) trace.add(TraceKernelTime{{number}, 0, time, 0, 2});
    }
  }
  const TracedProgram program = program_of(trace);
  std::vector<float> times;
  for (const TracedStep& step : program.steps()) {
    if (step.kind == TracedStep::Kind::kLaunch && step.names == 0) times.push_back(step.compute_us);
  }
  EXPECT_THAT(times, ::testing::ElementsAre(10, 40, 10, 40, 10, 40));
}

TEST(TracedProgramTest, WithoutAnyTimeTheLengthOfTheTraceIsDivided) {
  WrittenTrace trace;
  const BufferId buffer = trace.allocate(2_MiB);
  for (int i = 0; i < 101; ++i) {
    trace.wait(TraceWait::kLaunch, 40'000);
    trace.launch(1, {buffer}, 0);
  }
  const TracedProgram program = program_of(trace);
  EXPECT_NEAR(program.steps()[program.step_of_launch(50)].compute_us, 40, 1)
      << "but for what the program does itself";
  EXPECT_EQ(program.measured_share(), 0);
  EXPECT_TRUE(program.times_are_fitted());
}

TEST(TracedProgramTest, WhatWasWrittenBackAgainAndAgainIsWritten) {
  WrittenTrace trace;
  const BufferId buffer = trace.allocate(4_MiB);
  trace.copy(buffer, 4_MiB, true);
  trace.launch(1, {buffer}, 1000);
  trace.add(TraceEviction{{1}, buffer, {}, 4_MiB, 4_MiB});
  trace.add(TraceEviction{{2}, buffer, {}, 4_MiB, 4_MiB});
  EXPECT_TRUE(program_of(trace).is_written(0));
}

// Whichever of the two parts leaves first.
TEST(TracedProgramTest, TheFirstWriteBackOfEachPartSaysNothing) {
  WrittenTrace trace;
  const BufferId buffer = trace.allocate(4_MiB);
  trace.copy(buffer, 4_MiB, true);
  trace.launch(1, {buffer}, 1000);
  trace.add(TraceEviction{{1}, buffer, {}, 2_MiB, 2_MiB});
  trace.add(TraceEviction{{2}, buffer, 2_MiB, 2_MiB, 2_MiB});
  EXPECT_FALSE(program_of(trace).is_written(0));
}

// A copy ahead of need that somebody wanted meanwhile is made again when the part leaves.
TEST(TracedProgramTest, ACopyAheadOfNeedSaysNothing) {
  WrittenTrace trace;
  const BufferId buffer = trace.allocate(4_MiB);
  trace.copy(buffer, 4_MiB, true);
  trace.launch(1, {buffer}, 1000);
  trace.add(TraceEviction{{1}, buffer, {}, 4_MiB, {}});
  trace.add(TraceEviction{{2}, buffer, {}, 4_MiB, 4_MiB});
  EXPECT_FALSE(program_of(trace).is_written(0));
}

TEST(TracedProgramTest, WhatMostlyLeavesWithoutAWriteBackIsNotWritten) {
  for (const bool is_written_again : {false, true}) {
    WrittenTrace trace;
    const BufferId buffer = trace.allocate(2_MiB);  // a kernel made its content
    trace.launch(1, {buffer}, 1000);
    trace.add(TraceEviction{{1}, buffer, {}, 2_MiB, 2_MiB});
    trace.add(TraceEviction{{1}, buffer, {}, {}, 2_MiB});
    trace.add(TraceEviction{{2}, buffer, {}, 2_MiB, 2_MiB});  // its digest had not come in time
    if (is_written_again) trace.add(TraceEviction{{3}, buffer, {}, 2_MiB, 2_MiB});
    EXPECT_EQ(program_of(trace).is_written(0), is_written_again);
  }
}

TEST(TracedProgramTest, AReusedIdIsAnotherBuffer) {
  WrittenTrace trace;
  const BufferId first = trace.allocate(4_MiB);
  trace.launch(1, {first}, 1000);
  trace.add(TraceAllocation{first, 0x2000, 2_MiB, 2_MiB, 1, 0});  // its free was not recorded
  trace.launch(1, {first, BufferId{77}}, 1000);                   // of 77 nothing is known
  const TracedProgram program = program_of(trace);
  EXPECT_EQ(program.buffers(), 2U);
  EXPECT_EQ(program.peak(), 4_MiB);
  EXPECT_EQ(program.names(program.steps()[program.step_of_launch(1)]).size(), 1U);
  EXPECT_EQ(program.names(program.steps()[program.step_of_launch(1)])[0], 1U);
}

TEST(TracedProgramTest, OperationsThatWereRefusedAreCounted) {
  WrittenTrace trace;
  trace.launch(1, {trace.allocate(2_MiB)}, 1'000);
  trace.define(TraceText{1, "another mark"});
  trace.define(TraceText{2, kTraceRefusal});
  for (const TraceIndex text : {1U, 2U, 2U}) trace.add(TraceMark{TraceMark::kPoint, text, 0});
  EXPECT_EQ(program_of(trace).refusals(), 2U);
}

// Sixty launches of a millisecond each; of the first 59 the trace tells when they ended.
void write_launches(WrittenTrace& trace) {
  trace.driver_has_room_for(1'000);
  const BufferId weight = trace.allocate(128_MiB);
  for (int i = 0; i < 60; ++i) {
    trace.launch(static_cast<std::uint32_t>(1 + i % 6), {weight}, i < 59 ? 1'000'000 : 0);
  }
}

TEST(TracedProgramTest, AFirstWaitForAnotherStreamIsNotTheEndOfItsLaunches) {
  WrittenTrace trace;
  write_launches(trace);
  trace.wait(TraceWait::kCopy, 30'000);
  trace.sleep(2'000'000);
  trace.wait(TraceWait::kDevice, 57'700'000);
  trace.sleep(1'000'000'000);
  trace.wait(TraceWait::kDevice, 30'000);
  EXPECT_NEAR(static_cast<double>(program_of(trace).launches_end()), 60e6, 0.1e6);
}

TEST(TracedProgramTest, ALaterWaitForTheDeviceIsNotTheEndOfItsLaunches) {
  WrittenTrace trace;
  write_launches(trace);
  trace.wait(TraceWait::kCopy, 59'600'000);
  trace.sleep(1'000'000'000);
  trace.wait(TraceWait::kDevice, 30'000);
  const TracedProgram program = program_of(trace);
  EXPECT_NEAR(static_cast<double>(program.launches_end()), 60e6, 0.1e6);
  EXPECT_GT(program.end_time(), 1'000'000'000);
}

TEST(TracedProgramTest, ALastLaunchWhoseEndIsKnownNeedsNoWait) {
  WrittenTrace trace;
  trace.driver_has_room_for(1'000);
  const BufferId weight = trace.allocate(128_MiB);
  for (int i = 0; i < 60; ++i) trace.launch(1, {weight}, 1'000'000);
  // A time that no kernel can have is no time.
  trace.add(TraceKernelTime{{60}, 1'000'000, 9'000'000'000'000'000'000, 1});
  trace.sleep(1'000'000'000);
  trace.copy(weight, 4_KiB, false);
  EXPECT_NEAR(static_cast<double>(program_of(trace).launches_end()), 60e6, 0.1e6);
}

TEST(TracedProgramTest, ATraceWithoutLaunchesIsRefused) {
  WrittenTrace trace;
  (void)trace.allocate(4_MiB);
  const auto program = trace.program();
  ASSERT_TRUE(std::holds_alternative<std::string>(program));
  EXPECT_THAT(std::get<std::string>(program), HasSubstr("no launch"));
  EXPECT_THAT(std::get<std::string>(program), Not(HasSubstr("died")));
}

TEST(TracedProgramTest, ATraceThatWasCutOffBeforeItsLaunchesSaysSo) {
  WrittenTrace trace;
  (void)trace.allocate(4_MiB);
  const std::span<const std::byte> whole = trace.finish();
  auto reader = TraceReader::from(std::make_unique<TraceBytesSource>(whole.first(whole.size() - 1)),
                                  "cut.sptrace");
  ASSERT_TRUE(reader.ok());
  const auto program = TracedProgram::read(*reader);
  ASSERT_TRUE(std::holds_alternative<std::string>(program));
  EXPECT_THAT(std::get<std::string>(program), HasSubstr("died before it wrote more"));
}

}  // namespace
}  // namespace superpipe::cli
