// What the manager and `auto` ask of the driver among many buffers. What they take of the processor
// is counted by instructions_test.py.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>

#include "tests/bench/many_buffers.h"

namespace superpipe::bench {

using namespace virtual_time;

namespace {

using ::testing::IsEmpty;

class DriverCalls : public ::testing::TestWithParam<std::uint32_t> {};

TEST_P(DriverCalls, AreFewForAPieceThatMovesAndForALaunch) {
  ManyBuffers program(GetParam());
  const Outcome outcome = program.run_at_half();
  EXPECT_THAT(outcome.error, IsEmpty());
  EXPECT_THAT(outcome.violations, IsEmpty());
  const PassFigures& pass = outcome.passes[ManyBuffers::kPasses - 2];
  const auto calls = [&](DeviceCall call) { return static_cast<double>(pass.calls[call]); };
  const auto fetches = static_cast<double>(pass.demand_fetches + pass.prefetches);
  const auto evictions = static_cast<double>(pass.clean_evictions + pass.write_backs);
  const double moves = fetches + evictions;
  const auto launches = static_cast<double>(pass.launches);
  ASSERT_GT(fetches, 0);
  ASSERT_GT(evictions, 0);
  EXPECT_EQ(calls(DeviceCall::kIsCapturing), launches);
  EXPECT_EQ(calls(DeviceCall::kCreatePages) + calls(DeviceCall::kDestroyPages), 0);
  EXPECT_LE(calls(DeviceCall::kPin), 0.01 * moves) << "few leave for the first time";
  EXPECT_LE(calls(DeviceCall::kMap), 1.01 * fetches);
  EXPECT_LE(calls(DeviceCall::kUnmap), 1.01 * evictions);
  EXPECT_LE(calls(DeviceCall::kDigest), 1.01 * evictions);
  EXPECT_LE(calls(DeviceCall::kRecord), 4 * moves);
  EXPECT_LE(calls(DeviceCall::kStreamWait), 2 * moves);
  EXPECT_LE(calls(DeviceCall::kIsComplete), 12 * moves);
  EXPECT_LE(calls(DeviceCall::kOther), 0.25 * moves);
}

INSTANTIATE_TEST_SUITE_P(Buffers, DriverCalls, ::testing::Values(1'000, 10'000),
                         ::testing::PrintToStringParamName());

}  // namespace
}  // namespace superpipe::bench
