#include "profiler/process_name.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

namespace superpipe {
namespace {

using ::testing::Eq;
using ::testing::Optional;

/// The name of process 4711 with `variables` as its environment.
ProcessName named(const std::map<std::string, std::string>& variables) {
  return process_name(4711, [&variables](const char* name) -> const char* {
    const auto at = variables.find(name);
    return at == variables.end() ? nullptr : at->second.c_str();
  });
}

TEST(ProcessName, HasNoRankWithoutLauncher) {
  const ProcessName name = named({});
  EXPECT_EQ(name.rank, std::nullopt);
  EXPECT_FALSE(name.is_one_of_several);
  EXPECT_EQ(name.text(), "process 4711");
}

TEST(ProcessName, HasTheRankOfEachLauncher) {
  for (const char* const variable : {"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID",
                                     "LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK"}) {
    const ProcessName name = named({{variable, "3"}});
    EXPECT_THAT(name.rank, Optional(Eq(3U))) << variable;
    EXPECT_TRUE(name.is_one_of_several) << variable;
    EXPECT_EQ(name.text(), "rank 3, process 4711") << variable;
  }
}

TEST(ProcessName, PrefersTheRankOfTheWholeJob) {
  EXPECT_THAT(named({{"LOCAL_RANK", "1"}, {"SLURM_PROCID", "9"}}).rank, Optional(Eq(9U)));
  EXPECT_THAT(named({{"RANK", "5"}, {"SLURM_PROCID", "9"}}).rank, Optional(Eq(5U)));
}

TEST(ProcessName, TakesNoTextForARank) {
  EXPECT_EQ(named({{"RANK", "high"}}).rank, std::nullopt);
  EXPECT_EQ(named({{"RANK", ""}}).rank, std::nullopt);
  EXPECT_THAT(named({{"RANK", "-1"}, {"PMI_RANK", "2"}}).rank, Optional(Eq(2U)));
}

TEST(ProcessName, IsAloneInAJobOfOneProcess) {
  EXPECT_FALSE(named({{"RANK", "0"}, {"WORLD_SIZE", "1"}}).is_one_of_several);
  EXPECT_TRUE(named({{"RANK", "0"}, {"WORLD_SIZE", "2"}}).is_one_of_several);
}

TEST(ProcessName, IsOneOfSeveralWhereAnotherBeganTheRun) {
  EXPECT_TRUE(named({{kRunRootVariable, "17"}}).is_one_of_several);
  EXPECT_FALSE(named({{kRunRootVariable, "4711"}}).is_one_of_several);
}

TEST(FileNameOf, PutsIdAndRankInPlaceOfPlaceholders) {
  EXPECT_EQ(file_name_of("run.%p.%r.json", {4711, 3, true}), "run.4711.3.json");
  EXPECT_EQ(file_name_of("run.%r.json", {4711, std::nullopt, false}), "run.0.json");
}

TEST(FileNameOf, LeavesAllOtherNamesAsTheyAre) {
  EXPECT_EQ(file_name_of("run.json", {4711, 3, true}), "run.json");
  EXPECT_EQ(file_name_of("100%", {4711, 3, true}), "100%");
  EXPECT_EQ(file_name_of("5%x", {4711, 3, true}), "5%x");
  EXPECT_EQ(file_name_of("5%%p", {4711, 3, true}), "5%p");
}

TEST(NamesEachProcess, IsTrueOfPlaceholdersOnly) {
  EXPECT_TRUE(names_each_process("run.%p.json"));
  EXPECT_TRUE(names_each_process("run.%r.json"));
  EXPECT_FALSE(names_each_process("run.json"));
  EXPECT_FALSE(names_each_process("5%%p"));
}

}  // namespace
}  // namespace superpipe
