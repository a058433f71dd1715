#include "interposer/configuration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

namespace superpipe {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Field;
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

TEST(ReadConfiguration, IsNaiveWhenKIsOne) {
  const auto read_back = read({{"SUPERPIPE_K", "1"}});
  ASSERT_TRUE(read_back.ok());
  EXPECT_EQ(read_back.configuration.policy, PolicyKind::kNaive);
  EXPECT_EQ(read_back.configuration.k_prime, std::nullopt);
}

TEST(ReadConfiguration, KeepsBudgetAsShareUntilDeviceIsKnown) {
  const auto read_back = read({{"SUPERPIPE_GPU_MEM", "40%"}});
  ASSERT_TRUE(read_back.ok());
  EXPECT_EQ(read_back.configuration.policy, PolicyKind::kSuperpipeline);
  EXPECT_EQ(read_back.configuration.gpu_mem->resolve(1000_MiB), 400_MiB);
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
  EXPECT_THAT(read_back.errors,
              ElementsAre(Field(&ConfigurationError::variable, "SUPERPIPE_K"),
                          Field(&ConfigurationError::variable, "SUPERPIPE_HOST_MEM")));
}

TEST(ReadConfiguration, StillReadsStrictWhenAnotherValueIsBad) {
  EXPECT_TRUE(read({{"SUPERPIPE_K", "x"}, {"SUPERPIPE_STRICT", "1"}}).configuration.strict);
}

struct BadValue {
  const char* name;
  std::map<std::string, std::string> variables;
  const char* blamed;
  const char* says;
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
        BadValue{"KOfZero", {{"SUPERPIPE_K", "0"}}, "SUPERPIPE_K", "1 or more"},
        BadValue{"KNegative", {{"SUPERPIPE_K", "-3"}}, "SUPERPIPE_K", "1 or more"},
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
        BadValue{"MinBufferShare",
                 {{"SUPERPIPE_MIN_BUFFER", "1%"}},
                 "SUPERPIPE_MIN_BUFFER",
                 "must be bytes"},
        BadValue{"PolicyUnknown", {{"SUPERPIPE_POLICY", "best"}}, "SUPERPIPE_POLICY", "naive"},
        BadValue{"PolicyLater",
                 {{"SUPERPIPE_POLICY", "auto"}, {"SUPERPIPE_K", "2"}},
                 "SUPERPIPE_POLICY",
                 "not available in this version"},
        BadValue{"PolicyWithoutLimit",
                 {{"SUPERPIPE_POLICY", "naive"}},
                 "SUPERPIPE_POLICY",
                 "needs SUPERPIPE_K or SUPERPIPE_GPU_MEM"},
        BadValue{"Plan", {{"SUPERPIPE_PLAN", "p"}}, "SUPERPIPE_PLAN", "not available"},
        BadValue{"Trace", {{"SUPERPIPE_TRACE", "t"}}, "SUPERPIPE_TRACE", "not available"},
        BadValue{"Digest", {{"SUPERPIPE_WRITEBACK", "digest"}}, "SUPERPIPE_WRITEBACK", "always"},
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

}  // namespace
}  // namespace superpipe
