#include "interposer/configuration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <utility>

#include "profiler/plan_file.h"

namespace superpipe {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Optional;

ReadConfiguration read(const std::map<std::string, std::string>& variables) {
  return read_configuration([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

TEST(ReadConfiguration, ManagesAsResidentWhenNothingIsSet) {
  const auto read_back = read({});
  ASSERT_TRUE(read_back.ok());
  EXPECT_EQ(read_back.configuration.policy, PolicyKind::kResident);
  EXPECT_EQ(read_back.configuration.min_buffer, 1_MiB);
  EXPECT_TRUE(read_back.configuration.async_allocators);
  EXPECT_FALSE(read_back.configuration.summary);
}

TEST(ReadConfiguration, HasTheSameDefaultsAsAConfigurationThatNobodyRead) {
  const Configuration read_back = read({}).configuration;
  const Configuration unread;
  EXPECT_EQ(read_back.off, unread.off);
  EXPECT_EQ(read_back.strict, unread.strict);
  EXPECT_EQ(read_back.policy, unread.policy);
  EXPECT_EQ(read_back.headroom.has_value(), unread.headroom.has_value());
  EXPECT_EQ(read_back.host_mem.has_value(), unread.host_mem.has_value());
  EXPECT_EQ(read_back.min_buffer, unread.min_buffer);
  EXPECT_EQ(read_back.async_allocators, unread.async_allocators);
  EXPECT_EQ(read_back.wait_limit, unread.wait_limit);
  EXPECT_EQ(read_back.zero_fill, unread.zero_fill);
  EXPECT_EQ(read_back.known_kernel_words, unread.known_kernel_words);
  EXPECT_EQ(read_back.pins.empty(), unread.pins.empty());
  EXPECT_EQ(read_back.overflow_allowed, unread.overflow_allowed);
  EXPECT_EQ(read_back.compares_digests, unread.compares_digests);
  EXPECT_EQ(read_back.maps_early, unread.maps_early);
  EXPECT_EQ(read_back.memory_report, unread.memory_report);
  EXPECT_EQ(unread.memory_report, MemoryReport::kAuto);
  EXPECT_EQ(read_back.summary, unread.summary);
  EXPECT_EQ(read_back.stats_file, unread.stats_file);
  EXPECT_EQ(read_back.timeline_file, unread.timeline_file);
  EXPECT_EQ(read_back.log_level, unread.log_level);
  EXPECT_EQ(read_back.log_file, unread.log_file);
}

TEST(ReadConfiguration, TakesEveryVariableThatChangesSomething) {
  const auto read_back = read({{"SUPERPIPE_OFF", "1"},
                               {"SUPERPIPE_STRICT", "1"},
                               {"SUPERPIPE_POLICY", "superpipeline-paper"},
                               {"SUPERPIPE_K", "5"},
                               {"SUPERPIPE_K_PRIME", "3"},
                               {"SUPERPIPE_HEADROOM", "2M"},
                               {"SUPERPIPE_HOST_MEM", "50%"},
                               {"SUPERPIPE_MIN_BUFFER", "2M"},
                               {"SUPERPIPE_ALLOCATOR", "native"},
                               {"SUPERPIPE_WAIT_MS", "10"},
                               {"SUPERPIPE_FILL", "zero"},
                               {"SUPERPIPE_KERNEL_WORDS", "all"},
                               {"SUPERPIPE_PIN", "2,8M"},
                               {"SUPERPIPE_OVERFLOW", "allow"},
                               {"SUPERPIPE_WRITEBACK", "always"},
                               {"SUPERPIPE_MAP", "early"},
                               {"SUPERPIPE_REPORT_MEM", "real"},
                               {"SUPERPIPE_SUMMARY", "1"},
                               {"SUPERPIPE_STATS", "stats.json"},
                               {"SUPERPIPE_TIMELINE", "timeline.csv"}});
  ASSERT_TRUE(read_back.ok()) << read_back.errors.front().message();
  const Configuration& configuration = read_back.configuration;
  EXPECT_TRUE(configuration.off);
  EXPECT_TRUE(configuration.strict);
  EXPECT_EQ(configuration.policy, PolicyKind::kSuperpipelinePaper);
  EXPECT_THAT(configuration.k, Optional(5));
  EXPECT_THAT(configuration.k_prime, Optional(3));
  ASSERT_TRUE(configuration.headroom && configuration.host_mem);
  EXPECT_EQ(configuration.headroom->resolve(1_GiB), 2_MiB);
  EXPECT_EQ(configuration.host_mem->resolve(16_GiB), 8_GiB);
  EXPECT_EQ(configuration.min_buffer, 2_MiB);
  EXPECT_FALSE(configuration.async_allocators);
  EXPECT_EQ(configuration.wait_limit, std::chrono::milliseconds(10));
  EXPECT_TRUE(configuration.zero_fill);
  EXPECT_FALSE(configuration.known_kernel_words);
  EXPECT_TRUE(configuration.pins.includes(2, 1_MiB));
  EXPECT_TRUE(configuration.overflow_allowed);
  EXPECT_FALSE(configuration.compares_digests);
  EXPECT_TRUE(configuration.maps_early);
  EXPECT_EQ(configuration.memory_report, MemoryReport::kReal);
  EXPECT_TRUE(configuration.summary);
  EXPECT_EQ(configuration.stats_file, "stats.json");
  EXPECT_EQ(configuration.timeline_file, "timeline.csv");
}

TEST(ReadConfiguration, KnowsEveryLevelOfTheLog) {
  const std::map<std::string, LogLevel> levels = {
      {"debug", LogLevel::kDebug},  {"info", LogLevel::kInfo},   {"warning", LogLevel::kWarning},
      {"warn", LogLevel::kWarning}, {"error", LogLevel::kError}, {"off", LogLevel::kOff}};
  for (const auto& [name, level] : levels) {
    EXPECT_EQ(read({{"SUPERPIPE_LOG", name}}).configuration.log_level, level) << name;
  }
}

TEST(ReadConfiguration, TakesSuperpipelineWhenOnlyKIsSet) {
  const auto read_back = read({{"SUPERPIPE_K", "4"}});
  ASSERT_TRUE(read_back.ok());
  EXPECT_EQ(read_back.configuration.policy, PolicyKind::kSuperpipeline);
  EXPECT_THAT(read_back.configuration.k, Optional(4));
  EXPECT_THAT(read_back.configuration.k_prime, Optional(2));
}

TEST(ReadConfiguration, RoundsDefaultKPrimeDownButNotBelowOne) {
  EXPECT_THAT(read({{"SUPERPIPE_K", "5"}}).configuration.k_prime, Optional(2));
  EXPECT_THAT(read({{"SUPERPIPE_K", "2"}}).configuration.k_prime, Optional(1));
  EXPECT_THAT(read({{"SUPERPIPE_K", "3"}}).configuration.k_prime, Optional(1));
}

TEST(ReadConfiguration, IsSuperpipelineWhenKIsOne) {
  const auto read_back = read({{"SUPERPIPE_K", "1"}});
  ASSERT_TRUE(read_back.ok());
  EXPECT_EQ(read_back.configuration.policy, PolicyKind::kSuperpipeline);
  EXPECT_EQ(read_back.configuration.k_prime, std::nullopt);
}

TEST(ReadConfiguration, KeepsBudgetAsShareUntilDeviceIsKnown) {
  const auto read_back = read({{"SUPERPIPE_GPU_MEM", "40%"}});
  ASSERT_TRUE(read_back.ok());
  EXPECT_EQ(read_back.configuration.policy, PolicyKind::kAuto);
  EXPECT_EQ(read_back.configuration.gpu_mem->resolve(1000_MiB), 400_MiB);
}

TEST(ReadConfiguration, KeepsThePolicyThatIsNamedWithABudget) {
  for (const auto& [name, kind] : {std::pair("lru", PolicyKind::kLru),
                                   std::pair("superpipeline", PolicyKind::kSuperpipeline)}) {
    const auto read_back = read({{"SUPERPIPE_GPU_MEM", "40%"}, {"SUPERPIPE_POLICY", name}});
    ASSERT_TRUE(read_back.ok());
    EXPECT_EQ(read_back.configuration.policy, kind);
  }
}

TEST(ReadConfiguration, TakesWhatTheDeviceHasFreeWithoutABudget) {
  for (const char* const name : {"auto", "lru"}) {
    const auto read_back = read({{"SUPERPIPE_POLICY", name}});
    ASSERT_TRUE(read_back.ok()) << name;
    EXPECT_TRUE(read_back.configuration.budget_is_free_memory()) << name;
    const auto with_budget = read({{"SUPERPIPE_POLICY", name}, {"SUPERPIPE_GPU_MEM", "40%"}});
    EXPECT_FALSE(with_budget.configuration.budget_is_free_memory()) << name;
  }
  EXPECT_FALSE(read({}).configuration.budget_is_free_memory());
  EXPECT_EQ(read({}).configuration.policy, PolicyKind::kResident);
  EXPECT_FALSE(read({{"SUPERPIPE_K", "3"}}).configuration.budget_is_free_memory());
}

TEST(ReadConfiguration, IgnoresKWhenResident) {
  const auto read_back = read({{"SUPERPIPE_POLICY", "resident"}, {"SUPERPIPE_K", "2"}});
  ASSERT_TRUE(read_back.ok());
  EXPECT_EQ(read_back.configuration.k, std::nullopt);
}

TEST(ReadConfiguration, TakesEmptyValueAsUnset) {
  EXPECT_TRUE(read({{"SUPERPIPE_K", ""}, {"SUPERPIPE_GPU_MEM", ""}}).ok());
}

TEST(ReadConfiguration, SplitsLogIntoLevelAndFile) {
  const auto read_back = read({{"SUPERPIPE_LOG", "debug:out/a:b.log"}});
  ASSERT_TRUE(read_back.ok());
  EXPECT_EQ(read_back.configuration.log_level, LogLevel::kDebug);
  EXPECT_EQ(read_back.configuration.log_file, "out/a:b.log");
}

TEST(ReadConfiguration, ReportsEveryBadValueOfARun) {
  const auto read_back = read({{"SUPERPIPE_K", "x"}, {"SUPERPIPE_HOST_MEM", "1Q"}});
  ASSERT_EQ(read_back.errors.size(), 2U);
  EXPECT_EQ(read_back.errors[0].given.spelled(), "SUPERPIPE_K=x");
  EXPECT_EQ(read_back.errors[1].given.spelled(), "SUPERPIPE_HOST_MEM=1Q");
}

TEST(ReadConfiguration, StillReadsStrictWhenAnotherValueIsBad) {
  EXPECT_TRUE(read({{"SUPERPIPE_K", "x"}, {"SUPERPIPE_STRICT", "1"}}).configuration.strict);
}

struct BadValue {
  const char* name;
  std::map<std::string, std::string> variables;
  const char* blamed;
  const char* says;

  friend void PrintTo(const BadValue& bad, std::ostream* out) { *out << bad.name; }
};

class BadValueTest : public ::testing::TestWithParam<BadValue> {};

TEST_P(BadValueTest, IsNamedWithItsValueAndWhatIsAllowed) {
  const BadValue& bad = GetParam();
  const auto read_back = read(bad.variables);
  ASSERT_FALSE(read_back.ok());
  const std::string& value = bad.variables.at(bad.blamed);
  EXPECT_THAT(read_back.errors.front().message(),
              AllOf(HasSubstr(std::string(bad.blamed) + "=" + value + ": "), HasSubstr(bad.says)));
}

INSTANTIATE_TEST_SUITE_P(
    ReadConfiguration, BadValueTest,
    ::testing::Values(
        BadValue{"KOfZero", {{"SUPERPIPE_K", "0"}}, "SUPERPIPE_K", "at least 1"},
        BadValue{"KNegative", {{"SUPERPIPE_K", "-3"}}, "SUPERPIPE_K", "at least 1"},
        BadValue{"KWithUnit", {{"SUPERPIPE_K", "2x"}}, "SUPERPIPE_K", "whole number"},
        BadValue{"KTooLarge", {{"SUPERPIPE_K", "99999999999"}}, "SUPERPIPE_K", "whole number"},
        BadValue{"KPrimeOfK",
                 {{"SUPERPIPE_K", "2"}, {"SUPERPIPE_K_PRIME", "2"}},
                 "SUPERPIPE_K_PRIME",
                 "below SUPERPIPE_K, which is 2"},
        BadValue{"KPrimeAlone", {{"SUPERPIPE_K_PRIME", "2"}}, "SUPERPIPE_K_PRIME", "SUPERPIPE_K"},
        BadValue{"KPrimeWithKOne",
                 {{"SUPERPIPE_K", "1"}, {"SUPERPIPE_K_PRIME", "1"}},
                 "SUPERPIPE_K_PRIME",
                 "unset it"},
        BadValue{"KAndBudget",
                 {{"SUPERPIPE_K", "2"}, {"SUPERPIPE_GPU_MEM", "1G"}},
                 "SUPERPIPE_GPU_MEM",
                 "not both"},
        BadValue{"SizeMalformed", {{"SUPERPIPE_GPU_MEM", "2GB"}}, "SUPERPIPE_GPU_MEM", "1024"},
        BadValue{"SizeZero", {{"SUPERPIPE_GPU_MEM", "0"}}, "SUPERPIPE_GPU_MEM", "above 0"},
        BadValue{"Headroom", {{"SUPERPIPE_HEADROOM", "some"}}, "SUPERPIPE_HEADROOM", "1024"},
        BadValue{"MinBufferShare",
                 {{"SUPERPIPE_MIN_BUFFER", "1%"}},
                 "SUPERPIPE_MIN_BUFFER",
                 "above 0: bytes"},
        BadValue{"PolicyUnknown", {{"SUPERPIPE_POLICY", "best"}}, "SUPERPIPE_POLICY", "naive"},
        BadValue{"PolicyThatDoesNotCountLayers",
                 {{"SUPERPIPE_POLICY", "auto"}, {"SUPERPIPE_K", "2"}},
                 "SUPERPIPE_POLICY",
                 "counts in bytes, not in layers"},
        BadValue{"PolicyWithoutLimit",
                 {{"SUPERPIPE_POLICY", "naive"}},
                 "SUPERPIPE_POLICY",
                 "needs SUPERPIPE_K or SUPERPIPE_GPU_MEM"},
        BadValue{"Plan", {{"SUPERPIPE_PLAN", "/no/plan"}}, "SUPERPIPE_PLAN", "cannot open it"},
        BadValue{"WriteBack", {{"SUPERPIPE_WRITEBACK", "never"}}, "SUPERPIPE_WRITEBACK", "always"},
        BadValue{"HostMapped",
                 {{"SUPERPIPE_EVICTED", "host-mapped"}},
                 "SUPERPIPE_EVICTED",
                 "not available"},
        BadValue{"Allocator", {{"SUPERPIPE_ALLOCATOR", "x"}}, "SUPERPIPE_ALLOCATOR", "native"},
        BadValue{"Off", {{"SUPERPIPE_OFF", "yes"}}, "SUPERPIPE_OFF", "1 or 0"},
        BadValue{"Wait", {{"SUPERPIPE_WAIT_MS", "0"}}, "SUPERPIPE_WAIT_MS", "milliseconds"},
        BadValue{"Log", {{"SUPERPIPE_LOG", "loud"}}, "SUPERPIPE_LOG", "debug"},
        BadValue{"LogFile", {{"SUPERPIPE_LOG", "info:"}}, "SUPERPIPE_LOG", ":FILE"}),
    [](const auto& test) { return test.param.name; });

TEST(ReadConfiguration, ProcessesMeetInTheFolderThatIsGiven) {
  EXPECT_EQ(read({}).configuration.shared_folder, "/dev/shm");
  EXPECT_FALSE(read({}).configuration.shared_folder_is_given);
  EXPECT_TRUE(read({}).configuration.shares_host_memory);
  const ReadConfiguration given =
      read({{"SUPERPIPE_SHARED_FOLDER", "/run/mine"}, {"SUPERPIPE_HOST_LEDGER", "none"}});
  ASSERT_TRUE(given.ok());
  EXPECT_EQ(given.configuration.shared_folder, "/run/mine");
  EXPECT_TRUE(given.configuration.shared_folder_is_given);
  EXPECT_FALSE(given.configuration.shares_host_memory);
  for (const char* shared : {"/run/mine", "/run/ledger"}) {
    const ReadConfiguration former =
        read({{"SUPERPIPE_SHARED_FOLDER", "/run/mine"}, {"SUPERPIPE_HOST_LEDGER", shared}});
    ASSERT_TRUE(former.ok()) << "what the ledger's variable was before";
    EXPECT_EQ(former.configuration.shared_folder, "/run/mine");
    EXPECT_TRUE(former.configuration.shares_host_memory);
  }
  EXPECT_EQ(read({{"SUPERPIPE_HOST_LEDGER", "/run/mine"}}).configuration.shared_folder,
            "/run/mine");
}

/// A plan of 8 MiB with one launch and one slab, in a file.
class PlannedConfigurationTest : public ::testing::Test {
 protected:
  PlannedConfigurationTest() {
    RecordedRun run;
    run.footprints = {4_MiB};
    run.slabs = {4_MiB};
    run.write_backs = {{0, 0}};
    run.names = {0};
    run.launches = {{KernelId{1}, 0, 1}};
    Plan plan;
    plan.gpu_mem = 8_MiB;
    plan.recorded = std::make_shared<const RecordedRun>(std::move(run));
    std::ofstream(path_) << text_of(plan);
  }
  ~PlannedConfigurationTest() override { std::filesystem::remove(path_); }

  const std::string path_ = std::filesystem::temp_directory_path() /
                            ("superpipe-configuration-test-" + std::to_string(::getpid()));
};

TEST_F(PlannedConfigurationTest, APlanSaysWhatIsNotGiven) {
  const ReadConfiguration planned = read({{"SUPERPIPE_PLAN", path_}});
  ASSERT_TRUE(planned.ok());
  EXPECT_EQ(planned.configuration.policy, PolicyKind::kAuto);
  EXPECT_EQ(planned.configuration.gpu_mem->resolve(1_GiB), 8_MiB);
  ASSERT_NE(planned.configuration.recorded, nullptr);
  EXPECT_EQ(planned.configuration.recorded->slabs.size(), 1U);
  EXPECT_EQ(planned.configuration.recorded->write_backs.size(), 1U);
}

TEST_F(PlannedConfigurationTest, WithAnotherBudgetNoHostMemoryIsPinnedForIt) {
  const ReadConfiguration planned = read({{"SUPERPIPE_PLAN", path_}, {"SUPERPIPE_GPU_MEM", "1G"}});
  ASSERT_TRUE(planned.ok());
  ASSERT_NE(planned.configuration.recorded, nullptr);
  EXPECT_EQ(planned.configuration.recorded->launches.size(), 1U);
  EXPECT_TRUE(planned.configuration.recorded->slabs.empty());
  EXPECT_TRUE(planned.configuration.recorded->write_backs.empty());
}

TEST_F(PlannedConfigurationTest, APolicyWithoutForesightHasNoUseForTheOrder) {
  const ReadConfiguration planned = read({{"SUPERPIPE_PLAN", path_}, {"SUPERPIPE_POLICY", "lru"}});
  ASSERT_TRUE(planned.ok());
  EXPECT_EQ(planned.configuration.gpu_mem->resolve(1_GiB), 8_MiB);
  EXPECT_EQ(planned.configuration.recorded, nullptr);
}

}  // namespace
}  // namespace superpipe
