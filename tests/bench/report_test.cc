// What a report says of a run.
#include "bench/virtual_time/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <sstream>
#include <vector>

namespace superpipe::bench {

using namespace virtual_time;

namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using ::testing::Not;

Outcome outcome_of(std::initializer_list<int> pass_ms) {
  Outcome outcome;
  for (const int length : pass_ms) {
    PassFigures pass;
    pass.time = milliseconds{length};
    pass.launches = 10;
    pass.calls.counts[static_cast<std::size_t>(DeviceCall::kMap)] = 5;
    outcome.passes.push_back(pass);
  }
  return outcome;
}

Row row_of(const Outcome& outcome) {
  Row row;
  row.workload = "small";
  row.policy = "naive";
  describe(outcome,
           {.compute = Seconds{0.1},
            .physical = Seconds{0.2},
            .windowed = Seconds{0.25},
            .min_bytes = {},
            .lru_bytes = {},
            .bip_bytes = {}},
           row);
  return row;
}

std::string line_of(const Row& row) {
  std::ostringstream out;
  write(out, row);
  return out.str();
}

TEST(Report, TakesTheMeanFromTheThirdPassOn) {
  const Row row = row_of(outcome_of({1000, 900, 300, 500}));
  ASSERT_TRUE(row.steady.has_value());
  EXPECT_DOUBLE_EQ(row.steady->pass, 400);
  EXPECT_DOUBLE_EQ(row.first_pass, 1000);
  EXPECT_DOUBLE_EQ(row.steady->calls_per_launch[static_cast<std::size_t>(DeviceCall::kMap)], 0.5);
  EXPECT_THAT(line_of(row), HasSubstr(" 400.0 "));
  EXPECT_THAT(line_of(row), HasSubstr(" 2.00 "));  // times the bound
  EXPECT_THAT(line_of(row), HasSubstr(" 1.60 "));  // times the windowed bound
}

TEST(Report, HasNoSteadyStateOfTwoPasses) {
  EXPECT_FALSE(row_of(outcome_of({1000, 900})).steady.has_value());
}

TEST(Report, SaysWhatWasWrong) {
  Outcome outcome = outcome_of({1, 1, 1});
  EXPECT_THAT(line_of(row_of(outcome)), Not(HasSubstr("WRONG")));
  outcome.error = "a launch failed";
  outcome.violations = {"memory was unmapped under a kernel"};
  EXPECT_THAT(line_of(row_of(outcome)), HasSubstr("ended: a launch failed"));
  EXPECT_THAT(line_of(row_of(outcome)), HasSubstr("WRONG: memory was unmapped"));
}

TEST(Report, JsonOfLaunchesNamesWhatEachDoes) {
  const Handle read{0};
  const Handle made{1};
  PassTrace trace;
  trace.sizes = {Bytes{100}, Bytes{200}};
  trace.footprints = {4_KiB, 4_KiB};
  trace.without_content = {read};
  trace.passes.resize(1);
  trace.passes[0].peak = 8_KiB;
  trace.passes[0].launches.push_back(
      {KernelId{7}, {read, made}, {made}, {made}, {}, Seconds{0.003}});
  const std::vector<TracedWorkload> workloads{{"small", trace}};
  EXPECT_EQ(to_json(workloads),
            R"([{"footprints":[4096,4096],"passes":[[{"buffers":[0,1],"compute_ms":3.0,)"
            R"("makes":[1],"writes":[1]}]],"peak_bytes":8192,"sizes":[100,200],)"
            R"("without_content":[0],"workload":"small"}])");
}

TEST(Report, JsonHasNullForWhatIsNotKnown) {
  const std::vector<Row> rows{row_of(outcome_of({1, 1, 1}))};
  const std::string json = to_json(rows);
  EXPECT_THAT(json, HasSubstr("\"learned_at_launch\": null"));
  EXPECT_THAT(json, HasSubstr("\"load_gb_per_s\": null"));
  EXPECT_THAT(json, HasSubstr("\"physical_bound_ms\": 200.0"));
}

}  // namespace
}  // namespace superpipe::bench
