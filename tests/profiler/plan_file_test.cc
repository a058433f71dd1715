// Plans as files: written, read, and whatever else a file may hold.
#include "profiler/plan_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <ostream>
#include <string>
#include <variant>

namespace superpipe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Plan example() {
  RecordedRun run;
  run.footprints = {4_MiB, 6_MiB, 2_MiB};
  run.slabs = {4_MiB};
  run.write_backs = {{2, 0}, {1, 1}};
  run.names = {0, 1, 0, 2, 1};
  run.launches = {{KernelId{0xFEDCBA9876543210}, 0, 2}, {KernelId{7}, 2, 2}, {KernelId{7}, 4, 1}};
  run.pass_begin = 1;
  Plan plan;
  plan.command = "python \"generate\".py \n";
  plan.gpu_mem = 8_MiB;
  plan.pass_ms = 1.25;
  plan.first_pass_ms = 2.5;
  plan.recorded = std::make_shared<const RecordedRun>(std::move(run));
  return plan;
}

std::string problem_in(const std::string& text) {
  const auto read = plan_from(text);
  const auto* const problem = std::get_if<std::string>(&read);
  return problem != nullptr ? *problem : "";
}

/// The text with its second line changed, and a first line that fits it.
std::string resealed(const std::string& from, const std::string& to) {
  std::string text = text_of(example());
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
  const std::string body = text.substr(text.find('\n') + 1);
  std::uint64_t hash = 0xCBF29CE484222325ULL;
  for (const char byte : body) {
    hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001B3ULL;
  }
  char header[160];
  std::snprintf(header, sizeof header,
                R"({"format":"superpipe-plan","version":1,"bytes":%zu,"checksum":"%llx"})",
                body.size(), static_cast<unsigned long long>(hash));
  return std::string(header) + '\n' + body;
}

TEST(PlanFile, ReadsWhatItWrote) {
  const auto read = plan_from(text_of(example()));
  ASSERT_TRUE(std::holds_alternative<Plan>(read)) << std::get<std::string>(read);
  const Plan& plan = std::get<Plan>(read);
  EXPECT_EQ(plan.command, "python \"generate\".py \n");
  EXPECT_EQ(plan.policy, PolicyKind::kAuto);
  EXPECT_EQ(plan.gpu_mem, 8_MiB);
  EXPECT_EQ(plan.pass_ms, 1.25);
  EXPECT_EQ(plan.first_pass_ms, 2.5);
  const RecordedRun& run = *plan.recorded;
  EXPECT_THAT(run.footprints, ElementsAre(4_MiB, 6_MiB, 2_MiB));
  EXPECT_THAT(run.slabs, ElementsAre(4_MiB));
  EXPECT_THAT(run.write_backs, ElementsAre(RecordedRun::PieceOf{2, 0}, RecordedRun::PieceOf{1, 1}));
  EXPECT_EQ(run.pass_begin, 1U);
  ASSERT_EQ(run.launches.size(), 3U);
  EXPECT_EQ(run.launches[0].kernel, KernelId{0xFEDCBA9876543210});
  EXPECT_EQ(run.launches[2].kernel, KernelId{7});
  EXPECT_THAT(run.names_of(run.launches[0]), ElementsAre(0, 1));
  EXPECT_THAT(run.names_of(run.launches[1]), ElementsAre(0, 2));
  EXPECT_THAT(run.names_of(run.launches[2]), ElementsAre(1));
  EXPECT_EQ(text_of(plan), text_of(example()));
}

TEST(PlanFile, IsReadWithoutWhatIsWrittenBackToo) {
  const auto read = plan_from(resealed(R"("write_backs":[[2,0],[1,1]],)", ""));
  ASSERT_TRUE(std::holds_alternative<Plan>(read)) << std::get<std::string>(read);
  EXPECT_TRUE(std::get<Plan>(read).recorded->write_backs.empty());
}

TEST(PlanFile, HoldsPlansInLayersToo) {
  Plan plan;
  plan.policy = PolicyKind::kSuperpipeline;
  plan.k = 4;
  plan.k_prime = 2;
  const auto read = plan_from(text_of(plan));
  ASSERT_TRUE(std::holds_alternative<Plan>(read)) << std::get<std::string>(read);
  EXPECT_EQ(std::get<Plan>(read).k, 4);
  EXPECT_EQ(std::get<Plan>(read).k_prime, 2);
  EXPECT_TRUE(std::get<Plan>(read).recorded->launches.empty());
}

TEST(PlanFile, EveryChangedByteIsFound) {
  const std::string text = text_of(example());
  for (std::size_t at = 0; at < text.size(); ++at) {
    for (const int change : {1, 2, 32, 128}) {
      std::string damaged = text;
      damaged[at] = static_cast<char>(damaged[at] ^ change);
      EXPECT_NE(problem_in(damaged), "") << at << ' ' << change;
    }
  }
}

TEST(PlanFile, EveryCutIsFound) {
  const std::string text = text_of(example());
  for (std::size_t length = 0; length < text.size(); ++length) {
    EXPECT_NE(problem_in(text.substr(0, length)), "") << length;
  }
  EXPECT_THAT(problem_in(text.substr(0, text.size() - 9)), HasSubstr("9 bytes are missing"));
  EXPECT_THAT(problem_in(text + "x"), HasSubstr("checksum"));
}

TEST(PlanFile, SaysWhatElseAFileIs) {
  EXPECT_THAT(problem_in(""), HasSubstr("empty"));
  EXPECT_THAT(problem_in("hello"), HasSubstr("no plan"));
  EXPECT_THAT(problem_in(std::string("\0\0\0", 3)), HasSubstr("no plan"));
  EXPECT_THAT(problem_in("{\"a\":1}\n{}\n"), HasSubstr("no plan"));
  EXPECT_THAT(problem_in(std::string(1 << 20, '[')), HasSubstr("no plan"));
  EXPECT_THAT(problem_in(R"({"format":"superpipe-plan","version":2,"other":"things"})"),
              HasSubstr("version 2, made by a newer superpipe; this one reads version 1"));
  EXPECT_THAT(problem_in(R"({"format":"superpipe-plan","version":"x"})"), HasSubstr("damaged"));
}

struct Contradiction {
  const char* name;
  const char* from;
  const char* to;

  friend void PrintTo(const Contradiction& body, std::ostream* out) { *out << body.name; }
};

class ContradictingPlanTest : public ::testing::TestWithParam<Contradiction> {};

TEST_P(ContradictingPlanTest, IsRefused) {
  EXPECT_THAT(problem_in(resealed(GetParam().from, GetParam().to)), HasSubstr("contradicts"));
}

INSTANTIATE_TEST_SUITE_P(
    Bodies, ContradictingPlanTest,
    ::testing::Values(Contradiction{"NoObject", "{\"command\"", "[{\"command\""},
                      Contradiction{"UnknownBuffer", "[1,0,2]", "[1,0,3]"},
                      Contradiction{"UnknownKernel", "[1,0,2]", "[2,0,2]"},
                      Contradiction{"ABufferTwice", "[1,0,2]", "[1,0,0]"},
                      Contradiction{"UnknownBufferWrittenBack", "[[2,0],", "[[3,0],"},
                      Contradiction{"NegativePiece", "[[2,0],", "[[2,-1],"},
                      Contradiction{"HalfAPiece", "[[2,0],", "[[2],"},
                      Contradiction{"NoPieces", "\"write_backs\":[[2,0],[1,1]]",
                                    "\"write_backs\":7"},
                      Contradiction{"NegativeBuffer", "[1,0,2]", "[1,0,-2]"},
                      Contradiction{"NoKernel", "[1,0,2]", "[]"},
                      Contradiction{"EmptyBuffer", "4194304,6291456", "0,6291456"},
                      Contradiction{"HugeBuffer", "4194304,6291456", "18446744073709551615,6"},
                      Contradiction{"PassBehindTheEnd", "\"pass_begin\":1", "\"pass_begin\":3"},
                      Contradiction{"UnknownPolicy", "\"auto\"", "\"best\""},
                      Contradiction{"PolicyWithoutForesight", "\"auto\"", "\"lru\""},
                      Contradiction{"NoBudget", "8388608", "0"},
                      Contradiction{"LayersAndBytes", "\"pass_ms\"", "\"k\":2,\"pass_ms\""},
                      Contradiction{"KernelThatIsNoNumber", "\"7\"", "\"7g\""},
                      Contradiction{"NoKernels", "\"kernels\"", "\"kernel\""}),
    [](const auto& test) { return test.param.name; });

TEST(PlanFile, ThatWasResealedUnchangedIsRead) {
  EXPECT_EQ(problem_in(resealed("\"auto\"", "\"auto\"")), "");
}

TEST(PlanFile, CannotBeReadFromWhatIsNoFile) {
  const auto problem = [](const std::string& path) {
    const auto read = read_plan(path);
    const auto* const text = std::get_if<std::string>(&read);
    return text != nullptr ? *text : "";
  };
  EXPECT_THAT(problem("/no/such/plan"), HasSubstr("cannot open it: No such file"));
  EXPECT_THAT(problem("/dev/null"), HasSubstr("no file that a plan can be in"));
  EXPECT_THAT(problem("/"), HasSubstr("no file that a plan can be in"));
  const auto path = std::filesystem::temp_directory_path() /
                    ("superpipe-plan-test-" + std::to_string(::getpid()));
  std::ofstream(path) << text_of(example());
  EXPECT_EQ(problem(path), "");
  std::filesystem::remove(path);
}

SettingValues given(std::initializer_list<std::pair<SettingId, const char*>> texts) {
  SettingValues values;
  for (const auto& [id, text] : texts) values.give(id, ValueSource::kFlag, text);
  return values;
}

TEST(PlanFile, GivesWhatNobodyGave) {
  SettingValues values = given({});
  give_values_of(example(), values);
  EXPECT_EQ(values.choice(SettingId::kPolicy), "auto");
  EXPECT_EQ(values.size(SettingId::kGpuMem)->resolve(1_GiB), 8_MiB);
  EXPECT_TRUE(values.problems().empty());
}

TEST(PlanFile, GivesNothingWhereTheUserDid) {
  SettingValues budget = given({{SettingId::kGpuMem, "16M"}});
  give_values_of(example(), budget);
  EXPECT_EQ(budget.size(SettingId::kGpuMem)->resolve(1_GiB), 16_MiB);
  SettingValues layers = given({{SettingId::kK, "2"}});
  give_values_of(example(), layers);
  EXPECT_EQ(layers.given(SettingId::kGpuMem), nullptr);
  EXPECT_EQ(layers.given(SettingId::kPolicy), nullptr);
  SettingValues policy = given({{SettingId::kPolicy, "lru"}});
  give_values_of(example(), policy);
  EXPECT_EQ(policy.choice(SettingId::kPolicy), "lru");
  EXPECT_NE(policy.given(SettingId::kGpuMem), nullptr);
  SettingValues resident = given({{SettingId::kPolicy, "resident"}});
  give_values_of(example(), resident);
  EXPECT_EQ(resident.given(SettingId::kGpuMem), nullptr);
}

TEST(PlanFile, GivesLayersToPoliciesThatCountThem) {
  Plan plan;
  plan.policy = PolicyKind::kSuperpipeline;
  plan.k = 4;
  plan.k_prime = 2;
  SettingValues values = given({});
  give_values_of(plan, values);
  EXPECT_EQ(values.count(SettingId::kK), 4);
  EXPECT_EQ(values.count(SettingId::kKPrime), 2);
  EXPECT_TRUE(values.problems().empty());
}

}  // namespace
}  // namespace superpipe
