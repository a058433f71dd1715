// What a comparison finds to be worse, where, and what a gate makes of it.
#include "tools/superpipe/diff/run_comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tests/profiler/trace_examples.h"
#include "tests/tools/diff/compared_runs.h"

namespace superpipe::cli {
namespace {

using Outcome = ComparedQuantity::Outcome;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::kMs;
using ::testing::Not;
using testing::OffloadedProgram;

RunComparison compared(const OffloadedProgram& a, const OffloadedProgram& b) {
  return std::get<RunComparison>(compare_runs(testing::run_of(a, "a"), testing::run_of(b, "b")));
}

Outcome outcome_of(const RunComparison& comparison, Quantity quantity) {
  const ComparedQuantity* const one = comparison.find(quantity);
  return one == nullptr ? Outcome::kMissing : one->outcome;
}

ComparedRun statistics(const std::string& fields) {
  return std::get<ComparedRun>(
      run_of_statistics(R"({"version": "0.1.0", )" + fields + "}", "stats.json"));
}

template <typename Limit>
std::vector<std::string> names_of(const std::vector<Limit>& limits) {
  std::vector<std::string> names;
  names.reserve(limits.size());
  for (const Limit& limit : limits) names.emplace_back(kind_of(limit.quantity).name);
  return names;
}

TEST(CompareRuns, ARunIsTheSameAsItself) {
  OffloadedProgram program;
  program.stall = [](int pass, std::size_t weight) { return (weight + 1) * 1000U * (pass % 3); };
  const RunComparison same = compared(program, program);
  for (const ComparedQuantity& one : same.quantities) {
    EXPECT_EQ(one.outcome, Outcome::kSame) << one.kind->name;
    EXPECT_EQ(one.change, 0) << one.kind->name;
  }
  EXPECT_TRUE(judge(same, parse_gate("0,stall_ms=0,h2d_bytes=0").limits).exceeded.empty());
  EXPECT_THAT(same.notes, IsEmpty());
}

TEST(CompareRuns, NamesTheLayerAndTheKernelThatWaitLonger) {
  const OffloadedProgram before;
  OffloadedProgram after;
  after.stall = [](int, std::size_t weight) { return weight == 2 ? 3 * kMs : 0; };
  const RunComparison slower = compared(before, after);
  const ComparedQuantity& pass = *slower.find(Quantity::kPassTime);
  EXPECT_EQ(pass.outcome, Outcome::kWorse);
  EXPECT_NEAR(pass.change, 3.0 / 4, 0.05);
  EXPECT_EQ(outcome_of(slower, Quantity::kStallTime), Outcome::kWorse);
  EXPECT_TRUE(std::isinf(slower.find(Quantity::kStallTime)->change));
  EXPECT_EQ(outcome_of(slower, Quantity::kToDevice), Outcome::kSame);
  ASSERT_FALSE(slower.groups.empty());
  EXPECT_NEAR(slower.groups.front().more_stall_ms(), 3, 1e-6);
  EXPECT_TRUE(slower.groups.front().b->is_layer);
  EXPECT_EQ(slower.kernels.front().b->name, "kernel1");
  const std::string text = comparison_text(slower, parse_gate("5").limits);
  EXPECT_THAT(text, HasSubstr("B is slower"));
  EXPECT_THAT(text, HasSubstr("Most for " + slower.groups.front().b->name + " (+3.00 ms)"));
  EXPECT_THAT(text, HasSubstr("FAILED pass_ms"));
  // The other way round it is better, which no gate minds.
  const RunComparison faster = compared(after, before);
  EXPECT_EQ(outcome_of(faster, Quantity::kPassTime), Outcome::kBetter);
  EXPECT_TRUE(judge(faster, parse_gate("0,stall_ms=0").limits).exceeded.empty());
}

TEST(CompareRuns, CallsNoDifferenceWithinTheSpreadARegression) {
  OffloadedProgram before;
  OffloadedProgram after;
  // The same times in another order, and in B a little longer: far less than they vary.
  before.passes = after.passes = 14;
  before.stall = [](int pass, std::size_t) { return (pass * 7 % 5) * kMs; };
  after.stall = [](int pass, std::size_t) { return (pass * 3 % 5) * kMs + kMs / 10; };
  const RunComparison noisy = compared(before, after);
  const ComparedQuantity& pass = *noisy.find(Quantity::kPassTime);
  EXPECT_NE(pass.change, 0);
  EXPECT_EQ(pass.outcome, Outcome::kNoise);
  EXPECT_TRUE(judge(noisy, parse_gate("0").limits).exceeded.empty());
  EXPECT_THAT(names_of(judge(noisy, parse_gate("0").limits).unknown), ElementsAre("pass_ms"));
  EXPECT_THAT(names_of(judge(noisy, parse_gate("50").limits).unknown), IsEmpty());
  EXPECT_THAT(comparison_text(noisy, {}), HasSubstr("within the spread"));
  // By as much, but above all the spread, it is one.
  after.stall = [](int number, std::size_t) { return (number * 3 % 5) * kMs + 6 * kMs; };
  const RunComparison slower = compared(before, after);
  EXPECT_EQ(outcome_of(slower, Quantity::kPassTime), Outcome::kWorse);
  EXPECT_THAT(names_of(judge(slower, parse_gate("5").limits).exceeded), ElementsAre("pass_ms"));
}

TEST(CompareRuns, GivesNoDigitsOfASpreadThatIsManyTimesTheValue) {
  OffloadedProgram unsteady;
  unsteady.passes = 7;
  unsteady.stall = [](int pass, std::size_t) { return pass % 3 == 0 ? 50 * kMs : kMs / 100; };
  const std::string text = comparison_text(compared(unsteady, unsteady), {});
  EXPECT_THAT(text, HasSubstr("+/- >999 %"));
}

TEST(CompareRuns, TellsKernelsThatTakeLongerFromWaiting) {
  const OffloadedProgram before;
  OffloadedProgram after;
  after.compute_ns = 2 * kMs;
  const std::string text = comparison_text(compared(before, after), {});
  EXPECT_THAT(text, HasSubstr("B is slower"));
  EXPECT_THAT(text, HasSubstr("but its program waits 4.00 ms longer for the device. What takes "
                              "longer on the device is the kernels"));
  EXPECT_THAT(text, HasSubstr("+100.0 %"));
}

TEST(CompareRuns, SaysWhatTheProgramWaitsForLonger) {
  const OffloadedProgram before;
  OffloadedProgram after;
  after.launch_wait_ns = 2 * kMs;
  const RunComparison waits = compared(before, after);
  EXPECT_EQ(outcome_of(waits, Quantity::kLaunchWait), Outcome::kWorse);
  EXPECT_EQ(outcome_of(waits, Quantity::kDeviceWait), Outcome::kSame);
  EXPECT_NEAR(waits.find(Quantity::kLaunchWait)->b->value, 4 * 2, 1e-6);
  EXPECT_THAT(
      comparison_text(waits, {}),
      HasSubstr("but its program waits 8.00 ms longer in operations, for its buffers or for "
                "room in the stream.\n"));
  EXPECT_THAT(names_of(judge(waits, parse_gate("launch_wait_ms=5").limits).exceeded),
              ElementsAre("launch_wait_ms"));
  after.launch_wait_ns = 0;
  after.host_ns = 2 * kMs;
  EXPECT_THAT(comparison_text(compared(before, after), {}),
              HasSubstr("and its program waits no longer either: what takes longer is the program "
                        "itself"));
}

TEST(CompareRuns, DoesNotGuessWhereATraceTellsNoWaits) {
  OffloadedProgram before;
  OffloadedProgram after;
  after.compute_ns = 2 * kMs;
  const auto older = [](const OffloadedProgram& program) {
    std::vector<std::byte> bytes = testing::trace_of(program);
    superpipe::testing::set_minor_version(bytes, 2);
    return std::get<ComparedRun>(testing::read_run(bytes, "older"));
  };
  const auto comparison = std::get<RunComparison>(compare_runs(older(before), older(after)));
  EXPECT_EQ(comparison.find(Quantity::kDeviceWait), nullptr);
  EXPECT_THAT(comparison_text(comparison, {}),
              HasSubstr("what takes longer is the kernels, or the program itself"));
}

ComparedGroup layer(int number, const std::string& content, double stall_ms = 0) {
  ComparedGroup group;
  group.name = "layer " + std::to_string(number);
  group.is_layer = true;
  group.content = content;
  group.stall_ms = stall_ms;
  return group;
}

ComparedGroup site(const std::string& name, double stall_ms) {
  ComparedGroup group;
  group.name = group.content = name;
  group.stall_ms = stall_ms;
  return group;
}

TEST(CompareRuns, MatchesLayersByTheirBuffersAndOrder) {
  ComparedRun a = testing::run_of({}, "a");
  ComparedRun b = a;
  a.groups = {site("load", 1), layer(1, "1x100"), layer(2, "2x50"), layer(3, "2x50", 4)};
  // A layer came before the last two, so that their numbers changed; one went; and traces tell
  // groups in the order in which their first buffers come.
  b.groups = {layer(10, "1x9", 2), layer(4, "2x50", 9), layer(3, "2x50"),
              layer(2, "1x77"),    site("cache", 3),    site("load", 1)};
  const auto comparison = std::get<RunComparison>(compare_runs(a, b));
  std::vector<std::string> pairs;
  for (const GroupPair& pair : comparison.groups) {
    pairs.push_back((pair.a ? pair.a->name : "none") + " and " + (pair.b ? pair.b->name : "none"));
  }
  EXPECT_THAT(pairs, ElementsAre("layer 3 and layer 4", "none and cache", "none and layer 10",
                                 "layer 1 and none", "none and layer 2", "layer 2 and layer 3",
                                 "load and load"));
  EXPECT_THAT(comparison_text(comparison, {}), HasSubstr("layer 3 (B: layer 4)"));
  EXPECT_THAT(comparison_text(comparison, {}), HasSubstr("layer 10 (B only)"));
}

TEST(CompareRuns, SaysThatPassesMayBeOfOtherWork) {
  OffloadedProgram after;
  after.weights.push_back(4_MiB);
  EXPECT_THAT(compared({}, after).notes, ElementsAre(HasSubstr("4 launches in A and 5 in B")));
}

TEST(CompareRuns, SaysThatOnePassHasNoSpreadEvenWhereItIsTheFirst) {
  ComparedRun run = testing::run_of({}, "a");
  run.passes->first = 0;
  run.passes->count = 1;
  const auto comparison = std::get<RunComparison>(compare_runs(testing::run_of({}, "a"), run));
  EXPECT_THAT(comparison.notes, ::testing::IsSupersetOf({HasSubstr("B has too few passes"),
                                                         HasSubstr("one pass of B is compared")}));
}

TEST(CompareRuns, RefusesTracesOfProgramsWithoutACommonKernel) {
  OffloadedProgram other;
  other.first_kernel = 7;
  other.command = "./other";
  const auto problem =
      compare_runs(testing::run_of({}, "a.sptrace"), testing::run_of(other, "b.sptrace"));
  ASSERT_TRUE(std::holds_alternative<std::string>(problem));
  EXPECT_THAT(std::get<std::string>(problem), HasSubstr("different programs"));
  EXPECT_THAT(std::get<std::string>(problem), HasSubstr("./other"));
  // One kernel in common is enough; that the commands differ is said.
  other.first_kernel = 2;
  const RunComparison changed = compared({}, other);
  EXPECT_THAT(changed.notes, ElementsAre("the commands are not the same"));
}

TEST(CompareRuns, TraceAndStatisticsAreComparedByWhatBothTell) {
  const ComparedRun trace = testing::run_of({}, "a");
  const auto mixed = std::get<RunComparison>(compare_runs(
      trace, statistics(R"("launches": 48, "pass_ms": 8.5, "h2d_bytes": 100, "errors": 2)")));
  EXPECT_EQ(outcome_of(mixed, Quantity::kPassTime), Outcome::kWorse);
  EXPECT_EQ(outcome_of(mixed, Quantity::kToDevice), Outcome::kBetter);
  EXPECT_FALSE(mixed.find(Quantity::kToDevice)->is_of_pass);
  EXPECT_EQ(outcome_of(mixed, Quantity::kErrors), Outcome::kMissing);
  EXPECT_EQ(outcome_of(mixed, Quantity::kAllocations), Outcome::kMissing);
  EXPECT_TRUE(mixed.kernels.empty());
  EXPECT_TRUE(mixed.groups.empty());
  EXPECT_THAT(mixed.notes.front(), HasSubstr("B is statistics"));
  EXPECT_THAT(names_of(judge(mixed, parse_gate("allocations=5").limits).unknown),
              ElementsAre("allocations"));
  EXPECT_THAT(comparison_text(mixed, {}), HasSubstr("not in B"));
}

TEST(CompareRuns, SumsOfRunsOfDifferentLengthsAreComparedByLaunch) {
  const auto longer = std::get<RunComparison>(
      compare_runs(statistics(R"("launches": 100, "h2d_bytes": 1000, "peak_device_bytes": 50)"),
                   statistics(R"("launches": 200, "h2d_bytes": 2200, "peak_device_bytes": 50)")));
  EXPECT_NEAR(longer.find(Quantity::kToDevice)->change, 0.1, 1e-9);
  EXPECT_NEAR(longer.find(Quantity::kLaunches)->change, 1, 1e-9);
  EXPECT_EQ(outcome_of(longer, Quantity::kPeakDevice), Outcome::kSame);
  EXPECT_THAT(longer.notes, ::testing::Contains(HasSubstr("by launch")));
}

TEST(CompareRuns, BothAreMeansWhereOneProgramWasAheadOfItsDevice) {
  ComparedRun ahead = testing::run_of({}, "a");
  const ComparedRun waits = testing::run_of({}, "b");
  ahead.passes->is_ahead = true;
  const auto comparison = std::get<RunComparison>(compare_runs(ahead, waits));
  EXPECT_TRUE(comparison.pass_times_are_means);
  EXPECT_EQ(comparison.find(Quantity::kPassTime)->b->value, waits.passes->mean_ms);
  EXPECT_FALSE(comparison.find(Quantity::kPassTime)->b->spread.has_value());
}

TEST(Judge, DoesNotPassTimesThatMayBeTooShort) {
  const ComparedRun a = testing::run_of({}, "a");
  ComparedRun b = a;
  b.passes->may_be_ahead = true;
  b.passes->tail_ms = 1500;
  b.passes->mean_ms += 1500;
  const auto limits = parse_gate("5").limits;
  const auto doubtful = std::get<RunComparison>(compare_runs(a, b));
  EXPECT_FALSE(doubtful.pass_times_are_means);
  EXPECT_THAT(names_of(judge(doubtful, limits).unknown), ElementsAre("pass_ms"));
  EXPECT_THAT(doubtful.notes, ElementsAre(HasSubstr("1500 ms lie between the last launch")));
  EXPECT_THAT(comparison_text(doubtful, limits), HasSubstr("UNKNOWN pass_ms"));
  // With as much behind both, neither of the two figures that are known is worse.
  const auto alike = std::get<RunComparison>(compare_runs(b, b));
  EXPECT_THAT(judge(alike, limits).unknown, IsEmpty());
  EXPECT_THAT(judge(alike, limits).exceeded, IsEmpty());
  // Passes of B that take too long even so do take too long; those of A may have, too.
  OffloadedProgram slow;
  slow.compute_ns = 2 * kMs;
  ComparedRun slower = testing::run_of(slow, "b");
  EXPECT_THAT(names_of(judge(std::get<RunComparison>(compare_runs(b, slower)), limits).unknown),
              ElementsAre("pass_ms"));
  slower.passes->may_be_ahead = true;
  EXPECT_THAT(names_of(judge(std::get<RunComparison>(compare_runs(a, slower)), limits).exceeded),
              ElementsAre("pass_ms"));
}

// One slow pass of each makes the ranges overlap, whatever the others do.
TEST(Judge, DoesNotPassWhatFewPassesHide) {
  OffloadedProgram before;
  OffloadedProgram after;
  before.passes = after.passes = 7;
  before.stall = [](int pass, std::size_t) { return pass == 3 ? 9 * kMs : 0; };
  after.stall = [](int pass, std::size_t) { return pass == 3 ? 9 * kMs : kMs; };
  const RunComparison hidden = compared(before, after);
  ASSERT_LT(hidden.a.passes->count, 9U);
  EXPECT_EQ(outcome_of(hidden, Quantity::kPassTime), Outcome::kNoise);
  EXPECT_GT(hidden.find(Quantity::kPassTime)->change, 0.5);
  EXPECT_THAT(hidden.notes, ElementsAre(HasSubstr("passes of A are compared: their spread"),
                                        HasSubstr("passes of B are compared: their spread")));
  const auto limits = parse_gate("5").limits;
  const GateVerdict verdict = judge(hidden, limits);
  EXPECT_THAT(verdict.exceeded, IsEmpty());
  ASSERT_THAT(names_of(verdict.unknown), ElementsAre("pass_ms"));
  EXPECT_THAT(verdict.unknown[0].reason, HasSubstr("it cannot be told: passes differ by"));
  EXPECT_THAT(comparison_text(hidden, limits), HasSubstr("UNKNOWN pass_ms: +"));
}

TEST(Judge, SaysOfHowFewPassesAFailureIs) {
  OffloadedProgram before;
  OffloadedProgram after;
  before.passes = after.passes = 5;
  after.compute_ns = 2 * kMs;
  const GateVerdict verdict = judge(compared(before, after), parse_gate("5").limits);
  ASSERT_THAT(names_of(verdict.exceeded), ElementsAre("pass_ms"));
  EXPECT_THAT(verdict.exceeded[0].reason, HasSubstr("passes of A and"));
  before.passes = after.passes = 14;
  EXPECT_THAT(judge(compared(before, after), parse_gate("5").limits).exceeded[0].reason, IsEmpty());
}

TEST(Judge, DoesNotPassSumsOfWhatWasNotRecorded) {
  const ComparedRun a = testing::run_of({}, "a");
  ComparedRun dropped = a;
  dropped.of_run.set(Quantity::kDroppedEvents, 3);
  const auto limits = parse_gate("5,stall_ms=5,h2d_bytes=5,peak_device_bytes=5").limits;
  const auto unknown = [&](const ComparedRun& b) {
    return names_of(judge(std::get<RunComparison>(compare_runs(a, b)), limits).unknown);
  };
  EXPECT_THAT(unknown(a), IsEmpty());
  EXPECT_THAT(unknown(dropped), ElementsAre("stall_ms", "h2d_bytes"));
  ComparedRun died = a;
  died.is_complete = false;
  EXPECT_THAT(unknown(died), ElementsAre("stall_ms", "h2d_bytes", "peak_device_bytes"));
  // What is too much although some of it was not recorded is too much.
  dropped.of_pass.set(Quantity::kToDevice, 1e12);
  const auto worse = std::get<RunComparison>(compare_runs(a, dropped));
  EXPECT_THAT(names_of(judge(worse, limits).exceeded), ElementsAre("h2d_bytes"));
}

TEST(CompareRuns, TooSmallADifferenceOfStallsIsNoneOfRunsEither) {
  const auto stalls = [](const std::string& b) {
    return outcome_of(std::get<RunComparison>(compare_runs(
                          statistics(R"("launches": 100, "pass_ms": 10, "stall_ms": 0)"),
                          statistics(R"("launches": 100, "pass_ms": 10, "stall_ms": )" + b))),
                      Quantity::kStallTime);
  };
  EXPECT_EQ(stalls("0.01"), Outcome::kSame);
  EXPECT_EQ(stalls("0.2"), Outcome::kWorse);
}

TEST(CompareRuns, PinnedMemoryOfATraceIsNotThatOfStatistics) {
  const auto mixed = std::get<RunComparison>(compare_runs(
      testing::run_of({}, "a"), statistics(R"("launches": 48, "pinned_host_bytes": 99)")));
  EXPECT_EQ(outcome_of(mixed, Quantity::kPinnedHost), Outcome::kMissing);
  const auto limits = parse_gate("pinned_host_bytes=5").limits;
  EXPECT_THAT(names_of(judge(mixed, limits).unknown), ElementsAre("pinned_host_bytes"));
  EXPECT_THAT(comparison_text(mixed, limits), HasSubstr("measure it differently"));
  EXPECT_THAT(mixed.notes, ::testing::Contains(HasSubstr("exact peaks")));
}

TEST(Comparison, HugeFiguresAreShort) {
  const auto hostile = std::get<RunComparison>(
      compare_runs(statistics(R"("launches": 1, "pass_ms": 1e-5, "errors": -0.0)"),
                   statistics(R"("launches": 1e308, "pass_ms": 1e308, "errors": -0.0)")));
  const std::string text = comparison_text(hostile, parse_gate("5,launches=5").limits);
  EXPECT_THAT(text, HasSubstr("FAILED pass_ms: >999 %"));
  EXPECT_LT(text.size(), 1500U) << text;
  EXPECT_FALSE(std::signbit(hostile.find(Quantity::kErrors)->a->value));
}

TEST(CompareRuns, ABudgetIsNeitherWorseNorBetter) {
  const auto comparison =
      std::get<RunComparison>(compare_runs(statistics(R"("launches": 1, "budget_bytes": 100)"),
                                           statistics(R"("launches": 1, "budget_bytes": 200)")));
  EXPECT_EQ(outcome_of(comparison, Quantity::kBudget), Outcome::kChanged);
}

TEST(ParseGate, ReadsPercentagesWithAndWithoutNames) {
  const Gate one = parse_gate("5");
  ASSERT_EQ(one.limits.size(), 1U);
  EXPECT_EQ(one.limits[0].quantity, Quantity::kPassTime);
  EXPECT_DOUBLE_EQ(one.limits[0].share, 0.05);
  const Gate several = parse_gate("2.5%,h2d_bytes=0%,peak_device_bytes=10");
  EXPECT_THAT(names_of(several.limits), ElementsAre("pass_ms", "h2d_bytes", "peak_device_bytes"));
  EXPECT_DOUBLE_EQ(several.limits[0].share, 0.025);
  EXPECT_DOUBLE_EQ(several.limits[1].share, 0);
}

TEST(ParseGate, RefusesWhatIsNone) {
  for (const char* const text :
       {"", ",", "5,,", "%", "x", "-1", "nan", "inf", "1e3", "5%%", "5 ", "pass_ms",
        "pass_ms=", "=5", "5,6", "budget_bytes=5", "h2d_gb_per_s=5", "nothing=5", "99999999"}) {
    EXPECT_THAT(parse_gate(text).problem, Not(IsEmpty())) << text;
  }
  EXPECT_THAT(parse_gate("nothing=5").problem, HasSubstr("it is one of pass_ms, stall_ms"));
}

TEST(Comparison, NamesOfOthersDoNotSteerTheTerminal) {
  ComparedRun run = testing::run_of({}, "a\x1b[2J\n");
  run.command = "evil\x1b]0;title\x07";
  run.kernels[0].name = "kernel\x1b[31m\xFF";
  run.kernels[0].stall_ms = 5;
  const auto comparison = std::get<RunComparison>(compare_runs(run, run));
  const std::string text = comparison_text(comparison, {});
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_EQ(text.find('\xFF'), std::string::npos);
  EXPECT_TRUE(nlohmann::json::accept(comparison_json(comparison, {})));
}

TEST(Comparison, JsonTellsWhatTheTextDoes) {
  OffloadedProgram after;
  after.stall = [](int, std::size_t weight) { return weight == 2 ? 3 * kMs : 0; };
  const auto limits = parse_gate("5,launches=1").limits;
  const auto said = nlohmann::json::parse(comparison_json(compared({}, after), limits));
  EXPECT_EQ(said["gate"]["passed"], false);
  EXPECT_EQ(said["gate"]["exceeded"], nlohmann::json::array({"pass_ms"}));
  EXPECT_EQ(said["a"]["kind"], "trace");
  EXPECT_EQ(said["a"]["passes"]["first"], 3);
  for (const auto& one : said["quantities"]) {
    if (one["name"] != "stall_ms") continue;
    EXPECT_EQ(one["outcome"], "worse");
    EXPECT_TRUE(one["change"].is_null()) << "no number is infinite in JSON";
    EXPECT_NEAR(one["b"]["value"].get<double>(), 3, 1e-9);
  }
  EXPECT_EQ(nlohmann::json::parse(comparison_json(compared({}, {}), {}))["gate"], nullptr);
}

// Traces whose checksums are right and whose events are nonsense.
TEST(Comparison, SurvivesEventsThatMakeNoSense) {
  const std::vector<std::byte> good = trace_of(OffloadedProgram{});
  const auto chunks = superpipe::testing::chunks_of(good);
  std::mt19937 random(1);
  int readable = 0;
  for (int round = 0; round < 300; ++round) {
    std::vector<std::byte> bad(good.begin(), good.begin() + kTraceHeaderSize);
    for (const auto& chunk : chunks) {
      auto raw = superpipe::testing::raw_of(good, chunk);
      if (chunk.header.kind == TraceChunkHeader::Kind::kEvents) {
        raw[random() % raw.size()] = static_cast<std::byte>(random());
      }
      const auto bytes = superpipe::testing::chunk_with(chunk.header, raw);
      bad.insert(bad.end(), bytes.begin(), bytes.end());
    }
    auto read = testing::read_run(bad, "bad");
    if (std::holds_alternative<FileProblem>(read)) continue;
    ++readable;
    const auto comparison =
        compare_runs(testing::run_of({}, "good"), std::move(std::get<ComparedRun>(read)));
    if (std::holds_alternative<std::string>(comparison)) continue;
    const auto limits = parse_gate("0,stall_ms=0").limits;
    EXPECT_LT(comparison_text(std::get<RunComparison>(comparison), limits).size(), 100'000U);
    EXPECT_TRUE(
        nlohmann::json::accept(comparison_json(std::get<RunComparison>(comparison), limits)));
  }
  EXPECT_GT(readable, 100);
}

}  // namespace
}  // namespace superpipe::cli
