// The driver as a process sees it: environment, faults, statistics, fork, exit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/simgpu/driver/support/scenario_run.h"

namespace {

using testing::HasSubstr;

using simgpu_test::Outcome;

/// Runs the scenario with `environment` ("NAME=value NAME=value") in front.
Outcome run(const std::string& scenario, const std::string& environment = "") {
  return simgpu_test::run_scenario(SIMGPU_SCENARIO, scenario, environment);
}

class Statistics : public testing::Test {
 protected:
  void SetUp() override {
    const auto* const test = testing::UnitTest::GetInstance()->current_test_info();
    path_ = testing::TempDir() + "simgpu_statistics_" + test->name() + ".json";
    std::filesystem::remove(path_);
  }
  void TearDown() override { std::filesystem::remove(path_); }
  nlohmann::json read() const {
    std::ifstream file{path_};
    EXPECT_TRUE(file.good());
    return nlohmann::json::parse(file, nullptr, false);
  }
  /// Milliseconds for which the engines would have been busy on a machine that is fast enough.
  static double modelled_ms(const nlohmann::json& statistics) {
    double busy = 0;
    for (const auto& engine : statistics["busy_ms"]) busy += engine.get<double>();
    return busy - statistics["overrun_ms"].get<double>();
  }
  std::string variable() const { return "SIMGPU_STATS=" + path_; }

  std::string path_;
};

TEST(Process, CallsBeforeInitAreRefused) {
  const Outcome outcome = run("initialise");
  EXPECT_EQ(outcome.output, "before=3\ninit=0\ncount=0\n");
}

TEST(Process, MalformedVariableFailsInitWithOneLine) {
  for (const char* variable : {"SIMGPU_MEMORY=lots",
                               "SIMGPU_MEMORY=1",
                               "SIMGPU_DEVICES=0",
                               "SIMGPU_DEVICES=two",
                               "SIMGPU_H2D_GBPS=0",
                               "SIMGPU_D2H_GBPS=-1",
                               "SIMGPU_KERNEL_US=x",
                               "SIMGPU_MAP_US=1s",
                               "SIMGPU_LOG=loud",
                               "SIMGPU_FAULTS=cuMemCreate",
                               "SIMGPU_FAULTS=cuMemCreate:oom@0",
                               "SIMGPU_FAULTS=cuMemCreate:rain@1",
                               "SIMGPU_FAULTS=cuMemCreat:oom@1",
                               "SIMGPU_CONTEXT_BYTES=1Q",
                               "SIMGPU_OTHER_BYTES=17G",
                               "SIMGPU_POOL_CHUNK=big",
                               "SIMGPU_FILL=random",
                               "SIMGPU_ARENA=middle",
                               "SIMGPU_COMPUTE_ENGINES=0",
                               "SIMGPU_PAGEABLE_STAGED=yes",
                               "SIMGPU_HOST_FUNCTIONS=some",
                               "SIMGPU_PRESET=gtx",
                               "SIMGPU_SCALE=0.5",
                               "SIMGPU_SLOWDOWN=no",
                               "SIMGPU_DEVICE_GBPS=0",
                               "SIMGPU_HALF_TFLOPS=-1",
                               "SIMGPU_SINGLE_TFLOPS=x",
                               "SIMGPU_DUPLEX=0.4",
                               "SIMGPU_DUPLEX=1.1",
                               "SIMGPU_COPY_US=-1",
                               "SIMGPU_LAUNCH_US=x",
                               "SIMGPU_PIN_GBPS=0",
                               "SIMGPU_CALL_COSTS=dear",
                               "SIMGPU_CALL_COSTS=0",
                               "SIMGPU_IMPLICIT_SYNC=1",
                               "SIMGPU_QUEUE_DEPTH=0",
                               "SIMGPU_D2D_GBPS=0",
                               "SIMGPU_MIXERS=no",
                               "SIMGPU_OPERANDS=1",
                               "SIMGPU_MAPPED_PEERS=no",
                               "SIMGPU_HOST_PAGES=yes",
                               "SIMGPU_HOST_PAGE_LIMIT=most",
                               "SIMGPU_HOST_REREAD=0",
                               "SIMGPU_HOST_SHARE=1.5"}) {
    const Outcome outcome = run("initialise", variable);
    EXPECT_THAT(outcome.output, HasSubstr("init=1\ncount=3\n")) << variable;
    EXPECT_THAT(outcome.output, HasSubstr(std::string("simgpu: ") + variable)) << outcome.output;
  }
}

TEST(Process, MixersWriteNothingWhereTheyAreOff) {
  constexpr const char* kWrites = "launch=0\nchanged=1\nunmapped=700\n";
  EXPECT_THAT(run("mix").output, HasSubstr(kWrites));
  EXPECT_THAT(run("mix", "SIMGPU_MIXERS=on").output, HasSubstr(kWrites));
  EXPECT_THAT(run("mix", "SIMGPU_MIXERS=off").output,
              HasSubstr("launch=0\nchanged=0\nunmapped=700\n"));
}

TEST(Process, InjectedFaultHitsTheNthCallOnce) {
  const Outcome outcome = run("create_three", "SIMGPU_FAULTS=cuMemCreate:oom@2");
  EXPECT_EQ(outcome.output, "create=0\ncreate=2\ncreate=0\ncreate=0\n");
}

TEST(Process, InjectedFaultWithPlusHitsFromThenOn) {
  const Outcome outcome = run("create_three", "SIMGPU_FAULTS=cuMemCreate:801@3+");
  EXPECT_EQ(outcome.output, "create=0\ncreate=0\ncreate=801\ncreate=801\n");
}

TEST(Process, InjectedFaultCountsAbiVariantsAsOneFunction) {
  const Outcome outcome = run("copy_twice", "SIMGPU_FAULTS=cuMemcpyHtoDAsync:fail@2");
  EXPECT_EQ(outcome.output, "copy=0\ncopy=999\nalloc=0\n");
}

TEST(Process, InjectedIllegalAddressBreaksTheContext) {
  const Outcome outcome = run("copy_twice", "SIMGPU_FAULTS=cuMemcpyHtoDAsync:illegal@1");
  EXPECT_EQ(outcome.output, "copy=700\ncopy=700\nalloc=700\n");
}

TEST(Process, ForkedChildIsRefusedAndTheParentGoesOn) {
  const Outcome outcome = run("fork");
  EXPECT_EQ(outcome.output, "parent=0\nchild=3\nchild=3\nstatus=0\nparent=0\n");
}

TEST(Process, FaultOutsideDeviceCodeGoesToTheProgramsHandler) {
  EXPECT_EQ(run("own_fault_handler_first").output, "handler=1\n");
  EXPECT_EQ(run("own_fault_handler_later").output, "handler=1\n");
}

TEST_F(Statistics, SayWhatWasAllocatedCopiedAndCalled) {
  EXPECT_EQ(run("allocate_and_copy", variable() + " SIMGPU_DEVICES=2").status, 0);
  const nlohmann::json statistics = read();
  ASSERT_TRUE(statistics.is_object());
  EXPECT_EQ(statistics["peak_bytes"], 10 << 20);
  EXPECT_EQ(statistics["peak_bytes_per_device"], nlohmann::json({10 << 20, 0}));
  EXPECT_EQ(statistics["h2d_bytes"], 4 << 20);
  EXPECT_EQ(statistics["d2h_bytes"], 1 << 20);
  EXPECT_EQ(statistics["launches"], 0);
  EXPECT_EQ(statistics["unmapped_accesses"], 0);
  EXPECT_EQ(statistics["api_calls"]["cuMemAlloc"], 2);
  EXPECT_EQ(statistics["api_calls"]["cuMemcpyHtoD"], 1);
  EXPECT_NEAR(modelled_ms(statistics), (5 << 20) / 4e6, 1e-3);
}

TEST_F(Statistics, TellPagesOnTheHostAndWhatWasUsedThere) {
  EXPECT_EQ(run("use_host_page", variable()).output, "kernel=0\nfill=0\ncopy=0\nwait=0\n");
  const nlohmann::json statistics = read();
  EXPECT_EQ(statistics["peak_host_page_bytes"], 6 << 20);
  EXPECT_EQ(statistics["host_page_bytes"], 2 << 20);
  // The kernel reads and writes what its 256 threads touch.
  EXPECT_EQ(statistics["in_place_read_bytes"], 256 * 64);
  EXPECT_EQ(statistics["in_place_written_bytes"], 256 * 64 + (1 << 20));
  EXPECT_EQ(statistics["h2d_bytes"], 2 << 20);
  EXPECT_EQ(statistics["d2h_bytes"], 0);
}

TEST_F(Statistics, OfAPresetAreThoseOfTheCardScaled) {
  // An H100 eight times slower, a 64th of its size: 54 GB/s / 512, and 2 us x 8 for each copy.
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(run("allocate_and_copy", variable() + " SIMGPU_PRESET=h100-sxm").status, 0);
  // No machine is faster than that.
  EXPECT_GT(std::chrono::steady_clock::now() - start, std::chrono::milliseconds{500})
      << "the time of pinning 4 MiB, at 4 GB/s / 512";
  EXPECT_NEAR(modelled_ms(read()), (5 << 20) / (54e6 / 512) + 2 * 0.016, 1e-3);
}

TEST_F(Statistics, OfAPresetGiveWayToSingleSettings) {
  EXPECT_EQ(run("allocate_and_copy", variable() + " SIMGPU_PRESET=h100-sxm SIMGPU_SLOWDOWN=1 "
                                                  "SIMGPU_SCALE=100 SIMGPU_D2H_GBPS=0.25")
                .status,
            0);
  EXPECT_NEAR(modelled_ms(read()), (4 << 20) / (54e6 / 100) + (1 << 20) / 0.25e6 + 2 * 0.002, 1e-3);
}

TEST_F(Statistics, SayThatTheMachineWasSlowerThanItsModel) {
  // No machine copies 4 MiB in 40 ns.
  EXPECT_EQ(run("allocate_and_copy", variable() + " SIMGPU_H2D_GBPS=100000").status, 0);
  const nlohmann::json statistics = read();
  const auto overrun = statistics["overrun_ms"].get<double>();
  EXPECT_GT(overrun, 0.1);
  EXPECT_NEAR(modelled_ms(statistics), (1 << 20) / 4e6, 1e-2) << "an overrun is busy time too";
  EXPECT_GT(statistics["overrun_share"].get<double>(), 0.01);
  EXPECT_NEAR(statistics["overrun_share"].get<double>(),
              overrun / (overrun + modelled_ms(statistics)), 1e-3);
}

TEST_F(Statistics, SayWhatCallsTookByTheirCosts) {
  EXPECT_EQ(run("allocate_and_copy", variable()).status, 0);
  EXPECT_EQ(read()["call_ms"], 0) << "they cost nothing unless that is asked for";
  EXPECT_EQ(run("allocate_and_copy", variable() + " SIMGPU_CALL_COSTS=10").status, 0);
  const nlohmann::json statistics = read();
  const auto allocations = statistics["api_calls"]["cuMemAlloc"].get<double>();
  ASSERT_GT(allocations, 0);
  EXPECT_GE(statistics["call_ms"].get<double>(), allocations * 10 * 0.05);
  EXPECT_LT(statistics["call_ms"].get<double>(), 1000);
  EXPECT_GE(statistics["call_wait_ms"].get<double>(), 0);
}

TEST_F(Statistics, CountTheProgramsCallsAndNotTheDriversOwn) {
  const Outcome outcome =
      run("launch_with_attributes",
          variable() + " SIMGPU_FAULTS=cuEventRecord:fail@1,cuDeviceGetAttribute:fail@1");
  EXPECT_EQ(outcome.output, "load=0\nlaunch=0\nwait=0\n");
  const nlohmann::json calls = read()["api_calls"];
  EXPECT_EQ(calls["cuLaunchKernelEx"], 1);
  EXPECT_FALSE(calls.contains("cuEventRecord"));
  EXPECT_FALSE(calls.contains("cuDeviceGetAttribute"));
}

TEST_F(Statistics, CountAnUnmappedAccessAndNameItOnStderr) {
  const Outcome outcome = run("unmap_under_copy", variable() + " SIMGPU_H2D_GBPS=0.02");
  EXPECT_THAT(outcome.output, HasSubstr("synchronize=700\n"));
  EXPECT_THAT(outcome.output, HasSubstr("cuMemcpyHtoDAsync accessed 0x"));
  EXPECT_EQ(read()["unmapped_accesses"], 1);
}

TEST_F(Statistics, AreWrittenWhenTheProcessExitsUnderLoad) {
  EXPECT_EQ(run("exit_under_load", variable()).status, 0);
  EXPECT_EQ(read()["api_calls"]["cuMemcpyHtoDAsync"], 32);
}

TEST_F(Statistics, AreNotWrittenByAForkedChild) {
  EXPECT_EQ(run("fork", variable()).status, 0);
  EXPECT_EQ(read()["api_calls"]["cuMemAlloc"], 1);
  EXPECT_EQ(read()["api_calls"]["cuMemFree"], 1);
}

TEST_F(Statistics, UnwritablePathIsOneLine) {
  const Outcome outcome = run("allocate_and_copy", "SIMGPU_STATS=/nonexistent/file.json");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.output, HasSubstr("cannot write the statistics to /nonexistent/file.json"));
}

}  // namespace
