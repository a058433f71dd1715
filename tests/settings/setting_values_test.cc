#include "settings/setting_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <ostream>
#include <string>
#include <vector>

namespace superpipe {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Optional;
using ::testing::StartsWith;

using Texts = std::map<SettingId, std::string>;

SettingValues values_of(const Texts& texts, ValueSource source) {
  SettingValues values;
  for (const auto& [id, text] : texts) values.give(id, source, text);
  return values;
}

SettingValues flags(const Texts& texts) { return values_of(texts, ValueSource::kFlag); }
SettingValues variables(const Texts& texts) { return values_of(texts, ValueSource::kVariable); }

std::vector<std::string> messages(const SettingValues& values) {
  std::vector<std::string> lines;
  for (const SettingProblem& problem : values.problems()) lines.push_back(problem.message());
  return lines;
}

TEST(SettingValues, HaveDefaultsWhereNothingIsGiven) {
  const SettingValues none;
  EXPECT_EQ(none.given(SettingId::kK), nullptr);
  EXPECT_EQ(none.count(SettingId::kK), std::nullopt);
  EXPECT_THAT(none.count(SettingId::kWaitMs), Optional(30'000));
  ASSERT_TRUE(none.size(SettingId::kMinBuffer).has_value());
  EXPECT_EQ(none.size(SettingId::kMinBuffer)->resolve(Bytes{}), 1_MiB);
  EXPECT_FALSE(none.size(SettingId::kHeadroom).has_value());
  EXPECT_EQ(none.choice(SettingId::kAllocator), "async");
  EXPECT_EQ(none.choice(SettingId::kPolicy), "");
  EXPECT_FALSE(none.is_on(SettingId::kOff));
  EXPECT_TRUE(none.pins(SettingId::kPin).empty());
  EXPECT_EQ(none.log(SettingId::kLog).level, "warning");
  EXPECT_EQ(none.text(SettingId::kStats), "");
  EXPECT_THAT(none.problems(), IsEmpty());
}

TEST(SettingValues, GiveBackWhatWasGiven) {
  const SettingValues values = variables({{SettingId::kK, "4"},
                                          {SettingId::kHeadroom, "2%"},
                                          {SettingId::kAllocator, "native"},
                                          {SettingId::kOff, "1"},
                                          {SettingId::kPin, "3,8M"},
                                          {SettingId::kLog, "warn:out/a:b.log"},
                                          {SettingId::kStats, "stats.json"}});
  EXPECT_THAT(values.problems(), IsEmpty());
  EXPECT_THAT(values.count(SettingId::kK), Optional(4));
  EXPECT_EQ(values.size(SettingId::kHeadroom)->resolve(100_MiB), 2_MiB);
  EXPECT_EQ(values.choice(SettingId::kAllocator), "native");
  EXPECT_TRUE(values.is_on(SettingId::kOff));
  EXPECT_TRUE(values.pins(SettingId::kPin).includes(3, 1_MiB));
  EXPECT_FALSE(values.pins(SettingId::kPin).includes(2, 1_MiB));
  EXPECT_EQ(values.log(SettingId::kLog).level, "warning");
  EXPECT_EQ(values.log(SettingId::kLog).file, "out/a:b.log");
  EXPECT_EQ(values.text(SettingId::kStats), "stats.json");
}

TEST(SettingValues, TakeAnEmptyTextAsNotGiven) {
  SettingValues values;
  values.give(SettingId::kK, ValueSource::kVariable, "");
  EXPECT_EQ(values.given(SettingId::kK), nullptr);
}

TEST(SettingValues, KeepTheLastOfTwoValues) {
  SettingValues values = variables({{SettingId::kK, "4"}});
  values.give(SettingId::kK, ValueSource::kFlag, "2");
  EXPECT_EQ(values.given(SettingId::kK)->spelled(), "--k 2");
}

TEST(SettingValues, FallBackToTheDefaultBesideABadValue) {
  const SettingValues values = variables(
      {{SettingId::kWaitMs, "soon"}, {SettingId::kMinBuffer, "5%"}, {SettingId::kFill, "ones"}});
  EXPECT_EQ(messages(values).size(), 3U);
  EXPECT_THAT(values.count(SettingId::kWaitMs), Optional(30'000));
  EXPECT_EQ(values.size(SettingId::kMinBuffer)->resolve(Bytes{}), 1_MiB);
  EXPECT_EQ(values.choice(SettingId::kFill), "none");
}

struct BadText {
  const char* name;
  SettingId id;
  const char* text;
  const char* reason;

  friend void PrintTo(const BadText& bad, std::ostream* out) { *out << bad.name; }
};

class BadTextTest : public ::testing::TestWithParam<BadText> {};

// The heart of it: whatever refuses a variable's value refuses the flag's, in the same words.
TEST_P(BadTextTest, IsRefusedAlikeAsFlagAndAsVariable) {
  const BadText& bad = GetParam();
  const Setting& its = setting(bad.id);
  EXPECT_THAT(messages(variables({{bad.id, bad.text}})),
              ElementsAre(std::string(its.variable) + '=' + bad.text + ": " + bad.reason));
  if (its.has_flag() && its.kind != SettingKind::kSwitch) {
    EXPECT_THAT(messages(flags({{bad.id, bad.text}})),
                ElementsAre(std::string(its.flag) + ' ' + bad.text + ": " + bad.reason));
  }
}

constexpr char kCountAllowed[] = "must be a whole number of layers, at least 1";
constexpr char kSizeAllowed[] =
    "must be a size above 0: bytes, or K, M, G, T as powers of 1024 (16M, 1.5G), or a percentage "
    "of the device (40%)";

INSTANTIATE_TEST_SUITE_P(
    SettingValues, BadTextTest,
    ::testing::Values(
        BadText{"CountOfZero", SettingId::kK, "0", kCountAllowed},
        BadText{"CountBelowZero", SettingId::kK, "-3", kCountAllowed},
        BadText{"CountWithUnit", SettingId::kK, "2x", kCountAllowed},
        BadText{"CountWithFraction", SettingId::kK, "1.5", kCountAllowed},
        BadText{"CountTooLarge", SettingId::kK, "99999999999", kCountAllowed},
        BadText{"Milliseconds", SettingId::kWaitMs, "soon",
                "must be a whole number of milliseconds, at least 1"},
        BadText{"SizeMalformed", SettingId::kGpuMem, "2GB", kSizeAllowed},
        BadText{"SizeOfZero", SettingId::kGpuMem, "0", kSizeAllowed},
        BadText{"SizeBelowZero", SettingId::kGpuMem, "-1G", kSizeAllowed},
        BadText{"SizeOverTheWhole", SettingId::kGpuMem, "101%", kSizeAllowed},
        BadText{"SizeOfTheHost", SettingId::kHostMem, "all",
                "must be a size above 0: bytes, or K, M, G, T as powers of 1024 (16M, 1.5G), or a "
                "percentage of the host's memory (40%)"},
        BadText{"SizeAsAShareOfNothing", SettingId::kMinBuffer, "5%",
                "must be a size above 0: bytes, or K, M, G, T as powers of 1024 (16M, 1.5G)"},
        BadText{"Headroom", SettingId::kHeadroom, "some",
                "must be a size: bytes, or K, M, G, T as powers of 1024 (16M, 1.5G), or a "
                "percentage of the device (40%)"},
        BadText{"Choice", SettingId::kAllocator, "mine", "must be one of async, native"},
        BadText{"LaterChoice", SettingId::kEvicted, "host-mapped",
                "not available in this version; must be one of auto, unmapped"},
        BadText{"Pins", SettingId::kPin, "2-1",
                "must be numbers of buffers (12,15-17), counted from 1, or sizes with a unit "
                "(8M,1M-2M,33554432B)"},
        BadText{"Switch", SettingId::kStrict, "yes", "must be 1 or 0"},
        BadText{"SwitchWithoutFlag", SettingId::kOff, "yes", "must be 1 or 0"},
        BadText{"LogLevel", SettingId::kLog, "loud",
                "must be LEVEL or LEVEL:FILE, and LEVEL must be one of debug, info, warning, "
                "error, off"},
        BadText{"LogFile", SettingId::kLog, "info:",
                "there is no file after the colon; must be LEVEL or LEVEL:FILE, and LEVEL must be "
                "one of debug, info, warning, error, off"},
        BadText{"LogWithoutLevel", SettingId::kLog, ":x",
                "there is no level before the colon; must be LEVEL or LEVEL:FILE, and LEVEL must "
                "be one of debug, info, warning, error, off"}),
    [](const auto& test) { return test.param.name; });

TEST(SettingValues, TakeNoHeadroomAtAll) {
  const SettingValues values = flags({{SettingId::kHeadroom, "0"}});
  EXPECT_THAT(values.problems(), IsEmpty());
  EXPECT_EQ(values.size(SettingId::kHeadroom)->resolve(1_GiB), Bytes{});
}

TEST(SettingValues, NameEachBadValue) {
  EXPECT_THAT(messages(variables({{SettingId::kK, "x"}, {SettingId::kHostMem, "1Q"}})),
              ElementsAre(StartsWith("SUPERPIPE_K=x: "), StartsWith("SUPERPIPE_HOST_MEM=1Q: ")));
}

struct Contradiction {
  const char* name;
  Texts texts;
  std::string by_variables;
  std::string by_flags;

  friend void PrintTo(const Contradiction& both, std::ostream* out) { *out << both.name; }
};

class ContradictionTest : public ::testing::TestWithParam<Contradiction> {};

TEST_P(ContradictionTest, IsSaidInTheWordsOfWhereTheValuesCameFrom) {
  EXPECT_THAT(messages(variables(GetParam().texts)), ElementsAre(GetParam().by_variables));
  EXPECT_THAT(messages(flags(GetParam().texts)), ElementsAre(GetParam().by_flags));
}

INSTANTIATE_TEST_SUITE_P(
    SettingValues, ContradictionTest,
    ::testing::Values(
        Contradiction{"KAndBudget",
                      {{SettingId::kK, "2"}, {SettingId::kGpuMem, "1G"}},
                      "SUPERPIPE_GPU_MEM=1G: SUPERPIPE_K and SUPERPIPE_GPU_MEM both say how much "
                      "stays on the device; give one of them, not both",
                      "--gpu-mem 1G: --k and --gpu-mem both say how much stays on the device; give "
                      "one of them, not both"},
        Contradiction{"KPrimeAlone",
                      {{SettingId::kKPrime, "2"}},
                      "SUPERPIPE_K_PRIME=2: has no meaning without SUPERPIPE_K; set it too",
                      "--k-prime 2: has no meaning without --k; give it too"},
        Contradiction{"KPrimeWithBudget",
                      {{SettingId::kKPrime, "2"}, {SettingId::kGpuMem, "1G"}},
                      "SUPERPIPE_K_PRIME=2: has no meaning without SUPERPIPE_K; with "
                      "SUPERPIPE_GPU_MEM it follows from the k that fits",
                      "--k-prime 2: has no meaning without --k; with --gpu-mem it follows from the "
                      "k that fits"},
        Contradiction{
            "KPrimeOfK",
            {{SettingId::kK, "2"}, {SettingId::kKPrime, "2"}},
            "SUPERPIPE_K_PRIME=2: must be below SUPERPIPE_K, which is 2: k' layers arrive "
            "while the other k - k' run",
            "--k-prime 2: must be below --k, which is 2: k' layers arrive while the other "
            "k - k' run"},
        Contradiction{
            "KPrimeWithKOne",
            {{SettingId::kK, "1"}, {SettingId::kKPrime, "1"}},
            "SUPERPIPE_K_PRIME=1: has no meaning with SUPERPIPE_K=1, which moves one layer "
            "at a time; unset it",
            "--k-prime 1: has no meaning with --k 1, which moves one layer at a time; "
            "leave it out"},
        Contradiction{"PolicyWithoutLimit",
                      {{SettingId::kPolicy, "naive"}},
                      "SUPERPIPE_POLICY=naive: needs SUPERPIPE_K or SUPERPIPE_GPU_MEM; set one of "
                      "them",
                      "--policy naive: needs --k N or --gpu-mem SIZE; give one of them"}),
    [](const auto& test) { return test.param.name; });

TEST(SettingValues, NameTheVariableThatAFlagContradicts) {
  SettingValues values = variables({{SettingId::kK, "2"}});
  values.give(SettingId::kKPrime, ValueSource::kFlag, "3");
  EXPECT_THAT(messages(values), ElementsAre(AllOf(StartsWith("--k-prime 3: "),
                                                  HasSubstr("SUPERPIPE_K, which is 2"))));
}

// A variable may be left over from elsewhere, and then has no effect.
TEST(SettingValues, RefuseALimitBesideResidentOnlyAsFlags) {
  const Texts texts = {{SettingId::kPolicy, "resident"}, {SettingId::kK, "2"}};
  EXPECT_THAT(messages(variables(texts)), IsEmpty());
  EXPECT_THAT(messages(flags(texts)),
              ElementsAre(EndsWith("and goes with neither --k nor --gpu-mem")));
}

TEST(SettingValues, CompareNothingWithABadValue) {
  EXPECT_THAT(messages(variables({{SettingId::kK, "x"}, {SettingId::kKPrime, "2"}})),
              ElementsAre(StartsWith("SUPERPIPE_K=x: ")));
  EXPECT_THAT(messages(variables({{SettingId::kPolicy, "best"}})),
              ElementsAre(StartsWith("SUPERPIPE_POLICY=best: ")));
}

TEST(ReadVariables, TakesEverySettingsVariable) {
  std::map<std::string, std::string> environment;
  for (const Setting& one : all_settings()) {
    if (one.has_variable()) environment[one.variable] = std::string("value of ") + one.variable;
  }
  environment["SUPERPIPE_K"] = "";
  const SettingValues values = read_variables([&](const char* name) -> const char* {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  });
  for (const Setting& one : all_settings()) {
    const GivenValue* const given = values.given(one.id);
    if (one.id == SettingId::kK || !one.has_variable()) {
      EXPECT_EQ(given, nullptr) << one.flag;
      continue;
    }
    ASSERT_NE(given, nullptr) << one.variable;
    EXPECT_EQ(given->source, ValueSource::kVariable);
    EXPECT_EQ(given->text, std::string("value of ") + one.variable);
  }
}

}  // namespace
}  // namespace superpipe
