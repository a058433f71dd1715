// The figures of a run, from its trace and from its statistics.
#include "tools/superpipe/diff/compared_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "profiler/statistics_json.h"
#include "profiler/trace_chunk.h"
#include "tests/tools/diff/compared_runs.h"
#include "tools/superpipe/diff/pass_report.h"

namespace superpipe::cli {
namespace {

using ::testing::HasSubstr;
using testing::kMs;
using testing::OffloadedProgram;

TEST(ComparedRun, OfATraceLeavesOutThePassesThatLearn) {
  OffloadedProgram program;
  // The first two passes wait much; the others, for the third weight only.
  program.stall = [](int pass, std::size_t weight) {
    return pass < 2 ? 50 * kMs : weight == 2 ? 3 * kMs : 0;
  };
  const ComparedRun run = testing::run_of(program);
  ASSERT_TRUE(run.passes.has_value());
  EXPECT_EQ(run.passes->first, 2U);
  EXPECT_EQ(run.passes->launches, 4);
  EXPECT_NEAR(run.of_pass[Quantity::kStallTime]->value, 3, 1e-9);
  EXPECT_NEAR(run.of_run[Quantity::kStallTime]->value, 2 * 4 * 50 + 10 * 3, 1e-9);
  EXPECT_NEAR(run.of_pass[Quantity::kPassTime]->value, 7, 0.2);
  EXPECT_FALSE(run.passes->is_ahead);
  EXPECT_EQ(run.of_pass[Quantity::kToDevice]->value, 16 << 20);
  EXPECT_EQ(run.of_run[Quantity::kToDevice]->value, 12 * (16 << 20));
  EXPECT_EQ(run.of_pass[Quantity::kFetches]->value, 4);
  EXPECT_EQ(run.of_run[Quantity::kPeakDevice]->value, 9 << 20);
  EXPECT_EQ(run.of_run[Quantity::kPinnedHost]->value, 20 << 20);
  EXPECT_EQ(run.of_run[Quantity::kBudget]->value, 8 << 20);
  EXPECT_EQ(run.of_run[Quantity::kAllocations]->value, 4);
  EXPECT_EQ(run.of_run[Quantity::kCopiedIn]->value, 16 << 20);
  EXPECT_EQ(run.command, "./program ./program");
}

TEST(ComparedRun, StallsAreOfTheirLayerAndKernelByPass) {
  OffloadedProgram program;
  program.stall = [](int pass, std::size_t weight) {
    return pass < 2 ? 50 * kMs : weight == 2 ? 3 * kMs : 0;
  };
  const ComparedRun run = testing::run_of(program);
  double in_layers = 0;
  int layers = 0;
  for (const ComparedGroup& group : run.groups) {
    in_layers += group.stall_ms;
    layers += group.is_layer ? 1 : 0;
    EXPECT_EQ(group.content.find("0x"), std::string::npos) << "an address: " << group.content;
  }
  EXPECT_GT(layers, 0);
  // The end of the last pass that was found is known; how many there are, passes say.
  EXPECT_NEAR(in_layers, 3, 1e-6);
  for (const ComparedKernel& kernel : run.kernels) {
    EXPECT_NEAR(kernel.launches, 2, 1e-9) << kernel.name;
    EXPECT_NEAR(kernel.stall_ms, kernel.name == "kernel1" ? 3 : 0, 1e-6) << kernel.name;
    ASSERT_TRUE(kernel.device_us.has_value());
    EXPECT_NEAR(*kernel.device_us, kernel.name == "kernel1" ? 2500 : 1000, 1);
  }
}

// Stalls are told late, mostly in the next pass.
TEST(PassReport, StallBelongsToThePassOfItsLaunch) {
  PassReport report({{}, 0, kNoLayer}, {100, 200, 300, 400}, 1);
  const auto at = [](std::int64_t time) { return TraceMoment{time, 1}; };
  report.on_launch(at(50), {{1}, 1, 1, {}});
  report.on_launch(at(100), {{2}, 1, 1, {}});
  report.on_launch(at(200), {{3}, 1, 1, {}});
  report.on_stall(at(210), {{2}, -10, 7});
  report.on_launch(at(310), {{4}, 1, 1, {}});
  report.on_stall(at(311), {{3}, -10, 20});
  report.on_launch(at(400), {{5}, 1, 1, {}});
  report.on_stall(at(450), {{1}, -10, 500});
  report.on_stall(at(450), {{4}, -10, 40});
  report.on_stall(at(450), {{5}, -10, 1000});
  report.finish();
  ASSERT_EQ(report.passes().size(), 3U);
  EXPECT_EQ(report.passes()[0].stall_ns, 7U);
  EXPECT_EQ(report.passes()[1].stall_ns, 20U);
  EXPECT_EQ(report.passes()[2].stall_ns, 40U);
  EXPECT_EQ(report.whole().stall_ns, 1567U);
  EXPECT_EQ(report.stall_ns(), 60U) << "of passes from the second on";
  EXPECT_EQ(report.use_of(1).launches, 2U);
  EXPECT_EQ(report.whole().launches, 5U);
}

TEST(PassReport, TellsTheWholeTraceWithoutPasses) {
  PassReport report({{}, 0, kNoLayer}, {}, 0);
  report.on_launch({10, 1}, {{1}, 1, 1, {}});
  report.on_stall({20, 1}, {{1}, 0, 5});
  report.finish();
  EXPECT_EQ(report.stall_ns(), 5U);
  EXPECT_EQ(report.use_of(1).launches, 1U);
  EXPECT_TRUE(report.passes().empty());
}

TEST(PassReport, ContentThatIsCopiedAheadOfNeedIsNoEviction) {
  PassReport report({{}, 0, kNoLayer}, {}, 0);
  report.on_eviction({10, 1}, {{1}, BufferId{1}, {}, 4_MiB, {}});
  report.on_eviction({20, 1}, {{2}, BufferId{1}, {}, 2_MiB, 2_MiB});
  report.finish();
  EXPECT_EQ(report.whole().evictions, 1U);
  EXPECT_EQ(report.whole().write_backs, 1U);
  EXPECT_EQ(report.whole().to_host, (6_MiB).count());
}

TEST(ComparedRun, ProgramThatIsAheadOfItsDeviceHasTheMeanToTheEnd) {
  testing::WrittenTrace trace;
  const BufferId weight = trace.allocate(4_MiB);
  const BufferId other = trace.allocate(2_MiB);
  // 40 passes of two milliseconds, submitted at once.
  for (int pass = 0; pass < 40; ++pass) {
    trace.launch(1, {weight}, kMs);
    trace.launch(2, {other}, kMs);
  }
  trace.wait();
  trace.free(weight);
  const auto run = std::get<ComparedRun>(testing::read_run(trace.finish(), "run"));
  ASSERT_TRUE(run.passes.has_value());
  EXPECT_TRUE(run.passes->is_ahead);
  EXPECT_NEAR(run.passes->mean_ms, 2, 0.1);
}

// Only some kernels have times: those of the last passes have none.
TEST(ComparedRun, ProgramIsAheadWhereAnyKernelEndsLongAfterTheLastLaunch) {
  testing::WrittenTrace trace;
  const BufferId weight = trace.allocate(4_MiB);
  for (int pass = 0; pass < 40; ++pass) {
    for (const TraceIndex kernel : {1, 2}) trace.launch(kernel, {weight}, pass < 20 ? kMs : 0);
  }
  trace.wait();
  trace.sleep(40 * static_cast<std::int64_t>(kMs));
  trace.free(weight);
  const auto run = std::get<ComparedRun>(testing::read_run(trace.finish(), "run"));
  ASSERT_TRUE(run.passes.has_value());
  EXPECT_TRUE(run.passes->is_ahead);
  EXPECT_FALSE(run.passes->may_be_ahead);
  EXPECT_FALSE(run.passes->ends_with_kernel);
  EXPECT_NEAR(run.passes->mean_ms, 2, 0.1) << "to the trace's end";
}

// A program whose passes are waited for, and which then works on the host for a second and frees.
std::vector<std::byte> with_a_long_end(std::uint64_t compute_ns) {
  testing::WrittenTrace trace;
  const BufferId weight = trace.allocate(4_MiB);
  for (int pass = 0; pass < 20; ++pass) {
    trace.launch(1, {weight}, compute_ns);
    trace.launch(2, {weight}, compute_ns);
    trace.sleep(2 * static_cast<std::int64_t>(kMs));
    trace.wait();
  }
  trace.sleep(1000 * static_cast<std::int64_t>(kMs));
  trace.free(weight);
  const auto bytes = trace.finish();
  return {bytes.begin(), bytes.end()};
}

TEST(ComparedRun, ProgramThatWorksOnAfterItsLastLaunchIsNotAheadOfItsDevice) {
  const auto run = std::get<ComparedRun>(testing::read_run(with_a_long_end(kMs), "run"));
  ASSERT_TRUE(run.passes.has_value());
  EXPECT_FALSE(run.passes->is_ahead);
  EXPECT_FALSE(run.passes->may_be_ahead);
  EXPECT_NEAR(run.of_pass[Quantity::kPassTime]->value, 2, 0.1);
  EXPECT_NEAR(run.passes->mean_ms, 2, 0.1) << "which ends with the last kernel";
}

TEST(ComparedRun, WithoutTimesOfKernelsItIsNotKnownWhatTheDeviceDidAfterTheLastLaunch) {
  const auto run = std::get<ComparedRun>(testing::read_run(with_a_long_end(0), "run"));
  ASSERT_TRUE(run.passes.has_value());
  EXPECT_FALSE(run.passes->is_ahead);
  EXPECT_TRUE(run.passes->may_be_ahead);
  EXPECT_NEAR(run.passes->tail_ms, 1002, 1);
  EXPECT_NEAR(run.of_pass[Quantity::kPassTime]->value, 2, 0.1);
}

TEST(ComparedRun, WithoutPassesTellsTheRun) {
  testing::WrittenTrace trace;
  trace.launch(1, {trace.allocate(4_MiB)}, 1000);
  const auto run = std::get<ComparedRun>(testing::read_run(trace.finish(), "run"));
  EXPECT_FALSE(run.passes.has_value());
  EXPECT_FALSE(run.no_passes.empty());
  EXPECT_EQ(run.of_run[Quantity::kLaunches]->value, 1);
  EXPECT_FALSE(run.of_pass[Quantity::kPassTime].has_value());
}

TEST(ComparedRun, TraceOfANewerVersionIsRefused) {
  std::vector<std::byte> bytes = testing::trace_of({});
  bytes[8] = std::byte{9};  // the major version
  const std::uint64_t checksum = trace_checksum(std::span(bytes).first(16));
  std::memcpy(&bytes[16], &checksum, sizeof checksum);
  const auto read = testing::read_run(bytes, "new.sptrace");
  ASSERT_TRUE(std::holds_alternative<FileProblem>(read));
  EXPECT_THAT(std::get<FileProblem>(read), HasSubstr("new.sptrace has format 9."));
  EXPECT_THAT(std::get<FileProblem>(read), HasSubstr("read it with a newer one"));
}

// Should a field of the statistics get another name, this fails.
TEST(ComparedRun, OfStatisticsHasWhatTheLibraryWrites) {
  RunFigures figures;
  figures.budget = 8_MiB;
  figures.residency.launches = 240;
  figures.residency.h2d_bytes = 3_MiB;
  figures.residency.stall_ms = 1.5;
  PassTimes times;
  times.pass_ms = 12.5;
  const auto run = std::get<ComparedRun>(
      run_of_statistics(statistics_json(figures, times, ProcessName{}, "0.1.0"), "stats.json"));
  EXPECT_FALSE(run.is_trace);
  EXPECT_EQ(run.of_pass[Quantity::kPassTime]->value, 12.5);
  EXPECT_EQ(run.of_run[Quantity::kBudget]->value, 8 << 20);
  EXPECT_EQ(run.of_run[Quantity::kLaunches]->value, 240);
  EXPECT_EQ(run.of_run[Quantity::kToDevice]->value, 3 << 20);
  for (const Quantity quantity :
       {Quantity::kStallTime, Quantity::kToHost, Quantity::kFetches, Quantity::kDemandFetches,
        Quantity::kEvictions, Quantity::kWriteBacks, Quantity::kPeakDevice, Quantity::kPinnedHost,
        Quantity::kManaged, Quantity::kPassthrough, Quantity::kErrors}) {
    EXPECT_TRUE(run.of_run[quantity].has_value()) << kind_of(quantity).name;
  }
}

TEST(ComparedRun, OfStatisticsWithoutPassesHasNoTimeOfAPass) {
  const auto run = std::get<ComparedRun>(
      run_of_statistics(R"({"version": "0.1.0", "launches": 3, "pass_ms": 0})", "stats.json"));
  EXPECT_FALSE(run.of_pass[Quantity::kPassTime].has_value());
}

TEST(ComparedRun, StatisticsThatAreNoneAreRefused) {
  const auto problem = [](const std::string& text) {
    const auto read = run_of_statistics(text, "stats.json");
    const auto* const said = std::get_if<FileProblem>(&read);
    return said == nullptr ? "accepted" : *said;
  };
  EXPECT_THAT(problem(R"({"version": "0.1.0", "launches": )"), HasSubstr("cut off or damaged"));
  EXPECT_THAT(problem(""), HasSubstr("cut off or damaged"));
  EXPECT_THAT(problem("[1, 2]"), HasSubstr("no statistics of a run"));
  EXPECT_THAT(problem("{}"), HasSubstr("no statistics of a run"));
  EXPECT_THAT(problem(R"({"version": 1, "launches": 2})"), HasSubstr("no statistics of a run"));
  EXPECT_THAT(problem(R"({"version": "0.1.0", "launches": "many"})"),
              HasSubstr("no statistics of a run"));
  EXPECT_THAT(problem(R"({"version": "0.1.0", "launches": -1})"), HasSubstr("its launches is -1"));
  EXPECT_THAT(problem(R"({"version": "0.1.0", "launches": 1e999})"), HasSubstr("damaged"));
  std::string deep = R"({"version": "0.1.0", "launches": 1, "x": )";
  deep += std::string(200'000, '[');
  EXPECT_THAT(problem(deep), HasSubstr("cut off or damaged"));
  deep += std::string(200'000, ']') + "}";
  EXPECT_EQ(problem(deep), "accepted");
}

TEST(ComparedRun, SurvivesStatisticsThatWereTamperedWith) {
  PassTimes times;
  times.pass_ms = 12.5;
  const std::string good = statistics_json(RunFigures{}, times, ProcessName{}, "0.1.0");
  std::mt19937 random(3);
  int accepted = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string bad = good;
    bad[random() % bad.size()] = static_cast<char>(random());
    if (round % 3 == 0) bad.resize(random() % bad.size());
    const auto read = run_of_statistics(bad, "stats.json");
    const auto* const run = std::get_if<ComparedRun>(&read);
    if (run == nullptr) {
      EXPECT_THAT(std::get<FileProblem>(read), HasSubstr("stats.json"));
      continue;
    }
    ++accepted;
    for (const QuantityKind& kind : all_quantities()) {
      const auto& measured = run->of_run[kind.id];
      EXPECT_TRUE(!measured || (std::isfinite(measured->value) && measured->value >= 0));
    }
  }
  EXPECT_GT(accepted, 10) << "else only the parser of JSON was tested";
}

}  // namespace
}  // namespace superpipe::cli
