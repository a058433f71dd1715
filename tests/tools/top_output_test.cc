#include "tools/superpipe/top_output.h"

#include <gmock/gmock.h>
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/tools/top_testing.h"

namespace superpipe::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

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

}  // namespace
}  // namespace superpipe::cli
