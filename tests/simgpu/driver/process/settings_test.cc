// What the settings of memory, copies and host functions change.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/simgpu/driver/support/scenario_run.h"

namespace {

using testing::HasSubstr;
using testing::MatchesRegex;

/// What the scenario prints with `environment` ("NAME=value NAME=value").
std::string output_of(const std::string& scenario, const std::string& environment) {
  const simgpu_test::Outcome outcome =
      simgpu_test::run_scenario(SIMGPU_SETTING_SCENARIO, scenario, environment);
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  return outcome.output;
}

TEST(Fill, UnwrittenMemoryReadsZero) {
  EXPECT_EQ(output_of("read_unwritten", ""), "different=1 zeros=6\n");
}

TEST(Fill, PoisonDiffersEachTime) {
  EXPECT_EQ(output_of("read_unwritten", "SIMGPU_FILL=poison"), "different=6 zeros=0\n");
}

TEST(Arena, LowReservationsBeginWhereDriversWereSeenToAndAllocationsFollow) {
#ifdef SUPERPIPE_SANITIZES_ADDRESS
  GTEST_SKIP() << "the sanitizer itself takes these addresses";
#endif
  EXPECT_THAT(output_of("show_addresses", "SIMGPU_ARENA=low SIMGPU_MEMORY=1G"),
              MatchesRegex("first=302000000 next=1 again=1 hinted=1 allocated=a2[0-9a-f]{7}\n"));
}

TEST(Arena, HighBeginsWhereNumbersHardlyLookLikeAddresses) {
#ifdef SUPERPIPE_SANITIZES_ADDRESS
  GTEST_SKIP() << "the sanitizer itself takes these addresses";
#endif
  EXPECT_THAT(output_of("show_addresses", ""),
              MatchesRegex("first=7[0-9a-f]{3}81000000 next=0 again=[01] hinted=1 "
                           "allocated=7[0-9a-f]{3}81000000\n"));
}

TEST(OtherBytes, AreNotFreeAndNotTheProgramsToTake) {
  EXPECT_EQ(output_of("show_capacity",
                      "SIMGPU_MEMORY=256M SIMGPU_CONTEXT_BYTES=6M SIMGPU_OTHER_BYTES=100M"),
            "free=150 total=256\nmore=2\nall=0\n");
}

TEST(PrimaryContext, StaysBrokenUntilTheProcessEnds) {
  EXPECT_THAT(output_of("break_primary", "SIMGPU_H2D_GBPS=0.02"),
              HasSubstr("broken=700\nretained=700\nreset=0\nretain=0\nsynchronize=700\n"
                        "allocate=700\n"));
}

TEST(PageableCopy, ReturnsWhenItIsDone) {
  EXPECT_EQ(output_of("copy_pageable", "SIMGPU_PAGEABLE_GBPS=0.02"),
            "before=0\ncopy=0\nbytes=7,7\n");
}

TEST(PageableCopy, ReturnsWhenItIsStagedIfAskedTo) {
  EXPECT_EQ(output_of("copy_pageable", "SIMGPU_PAGEABLE_GBPS=0.02 SIMGPU_PAGEABLE_STAGED=1"),
            "before=0\ncopy=600\nbytes=7,7\n");
}

TEST(ComputeEngines, RunAsManyKernelsAtOnceAsThereAre) {
  EXPECT_EQ(output_of("launch_three 3", "SIMGPU_KERNEL_US=60000"), "rounds=3\n");
  EXPECT_EQ(output_of("launch_three 2", "SIMGPU_KERNEL_US=60000 SIMGPU_COMPUTE_ENGINES=2"),
            "rounds=2\n");
  EXPECT_EQ(output_of("launch_three 1", "SIMGPU_KERNEL_US=60000 SIMGPU_COMPUTE_ENGINES=3"),
            "rounds=1\n");
}

TEST(Priorities, OrderWhatWaitsForAnEngine) {
  EXPECT_EQ(output_of("launch_by_priority", "SIMGPU_KERNEL_US=100000"), "high,low\n");
}

TEST(HostFunctions, OfTwoStreamsRunAtOnceOrOneAfterTheOther) {
  EXPECT_EQ(output_of("meet_in_host_functions 2", ""), "at once=2\nin all=2\n");
  EXPECT_EQ(output_of("meet_in_host_functions 1", "SIMGPU_HOST_FUNCTIONS=serial"),
            "at once=1\nin all=2\n");
}

TEST(MappedPeers, HaveAccessToPagesUnlessTheDriverGivesThemNone) {
  EXPECT_EQ(output_of("open_page", "SIMGPU_DEVICES=2"), "both=0\nown=0\nother=0\n");
  EXPECT_EQ(output_of("open_page", "SIMGPU_DEVICES=2 SIMGPU_MAPPED_PEERS=off"),
            "both=801\nown=0\nother=801\n");
}

TEST(HostPages, AreThereUnlessTheDeviceHasNone) {
  constexpr const char* kHas = "numa=1 host=1 node=0\n";
  EXPECT_EQ(output_of("create_host_pages", ""), std::string(kHas) + "numa=0\nhost=0\nsize=0\n");
  EXPECT_EQ(output_of("create_host_pages", "SIMGPU_HOST_PAGES=off"),
            "numa=0 host=0 node=-1\nnuma=801\nhost=801\nsize=801\n");
  EXPECT_EQ(output_of("create_host_pages", "SIMGPU_HOST_PAGES=refused"),
            std::string(kHas) + "numa=800\nhost=800\nsize=0\n");
  EXPECT_EQ(output_of("create_host_pages", "SIMGPU_HOST_PAGES=no-numa"),
            std::string(kHas) + "numa=800\nhost=0\nsize=0\n");
}

TEST(HostPages, EndTheProcessWhereTheDriverDoes) {
  const simgpu_test::Outcome outcome = simgpu_test::run_scenario(
      SIMGPU_SETTING_SCENARIO, "create_host_pages", "SIMGPU_HOST_PAGES=crash");
  EXPECT_NE(outcome.status, 0);
  EXPECT_THAT(outcome.output, testing::Not(HasSubstr("host=0")));
}

TEST(HostPages, AreRefusedWhereTheHostHasNoMore) {
  EXPECT_EQ(output_of("create_host_pages", "SIMGPU_HOST_PAGE_LIMIT=2M"),
            "numa=1 host=1 node=0\nnuma=0\nhost=2\nsize=0\n");
}

}  // namespace
