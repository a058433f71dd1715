#include "settings/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <string_view>

#include "policy/policy_engine.h"
#include "settings/setting_values.h"

namespace superpipe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(AllSettings, StandInTheOrderOfTheirIds) {
  ASSERT_EQ(all_settings().size(), kSettingCount);
  for (std::size_t i = 0; i < kSettingCount; ++i) {
    EXPECT_EQ(index_of(all_settings()[i].id), i);
    EXPECT_EQ(&setting(all_settings()[i].id), &all_settings()[i]);
  }
}

TEST(AllSettings, HaveNamesOfTheirOwn) {
  std::set<std::string> names;
  for (const Setting& one : all_settings()) {
    if (one.has_flag()) {
      EXPECT_THAT(one.flag, StartsWith("--"));
      EXPECT_TRUE(names.insert(one.flag).second) << one.flag;
    }
    if (one.has_variable()) {
      EXPECT_THAT(one.variable, StartsWith("SUPERPIPE_"));
      EXPECT_TRUE(names.insert(one.variable).second) << one.variable;
    }
    EXPECT_TRUE(one.has_flag() || one.has_variable());
  }
}

// The library reads variables only. A simulated device is the command's business.
TEST(AllSettings, HaveAVariableUnlessOnlyTheCommandActsOnThem) {
  for (const Setting& one : all_settings()) {
    EXPECT_EQ(one.has_variable(), one.id != SettingId::kSimulate) << one.flag << one.variable;
  }
}

TEST(AllSettings, SayWhatTheyDoAndWhatTheyTake) {
  for (const Setting& one : all_settings()) {
    const std::string name = std::string(one.flag) + one.variable;
    ASSERT_FALSE(one.help.empty()) << name;
    EXPECT_NE(one.help.back(), '.') << name;
    const bool is_switch = one.kind == SettingKind::kSwitch;
    EXPECT_EQ(std::string_view(one.placeholder).empty(), is_switch) << name;
    EXPECT_EQ(one.unit.empty(), one.kind != SettingKind::kCount) << name;
    const bool has_choices = one.kind == SettingKind::kChoice || one.kind == SettingKind::kLog;
    EXPECT_EQ(one.choices.empty(), !has_choices) << name;
  }
}

TEST(AllSettings, TakeTheirOwnDefaults) {
  for (const Setting& one : all_settings()) {
    if (!one.has_variable()) continue;
    for (const std::string_view value :
         {std::string_view(one.default_value), std::string_view(one.simulated_value)}) {
      SettingValues values;
      values.give(one.id, ValueSource::kVariable, std::string(value));
      EXPECT_THAT(values.problems(), ::testing::IsEmpty()) << one.variable << '=' << value;
    }
  }
}

TEST(AllSettings, NameEveryPolicy) {
  for (const std::string_view choice : setting(SettingId::kPolicy).choices) {
    EXPECT_TRUE(policy_from_name(choice)) << choice;
  }
  EXPECT_THAT(
      setting(SettingId::kPolicy).choices,
      ElementsAre("resident", "naive", "superpipeline", "superpipeline-paper", "lru", "auto"));
}

TEST(DescriptionOf, NamesChoicesThatThePlaceholderDoesNotShow) {
  EXPECT_THAT(
      description_of(setting(SettingId::kPolicy)),
      HasSubstr(": resident, naive, superpipeline, superpipeline-paper, lru or auto; default "));
  EXPECT_EQ(description_of(setting(SettingId::kReportMem)),
            "What programs are told of the device's memory, with one total wherever they ask: "
            "virtual (what device and host hold together), budget (what the budget leaves them of "
            "the device), real (the whole device), or auto (budget in a process that has vLLM, "
            "which fills all that it is told of, else virtual); default auto");
}

TEST(DescriptionOf, NamesDefaults) {
  EXPECT_EQ(description_of(setting(SettingId::kMinBuffer)),
            "Smaller allocations stay on the device; default 1M");
  EXPECT_THAT(
      description_of(setting(SettingId::kHeadroom)),
      HasSubstr("; default the larger of 64M and 1% of the device, at most an eighth of the "
                "budget, 2M with --simulate"));
  const Setting& without_default = setting(SettingId::kStats);
  EXPECT_EQ(description_of(without_default), without_default.help);
}

TEST(DefaultHeadroom, IsTheLargerOfASizeAndAShare) {
  EXPECT_EQ(default_headroom(1_GiB), 64_MiB);
  EXPECT_EQ(default_headroom(Bytes{12'800'000'000}), Bytes{128'000'000});
}

TEST(DefaultHeadroom, IsNoMoreThanAnEighthOfABudget) {
  EXPECT_EQ(default_headroom(140_GiB, 2_GiB), 256_MiB);
  EXPECT_EQ(default_headroom(1_GiB, 512_MiB), 64_MiB);
  EXPECT_EQ(default_headroom(1_GiB, 80_MiB), 10_MiB);
}

}  // namespace
}  // namespace superpipe
