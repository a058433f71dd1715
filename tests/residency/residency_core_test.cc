// What the parts of a manager share: samples of the device, and pages that change.
#include "residency/residency_core.h"

#include <gtest/gtest.h>

#include <chrono>

#include "tests/residency/core_fixture.h"

namespace superpipe::testing {
namespace {

using std::chrono::milliseconds;

class ResidencyCoreTest : public CoreTest {
 protected:
  [[nodiscard]] int samples() { return device_.calls(Call::kUsage) - at_start_; }

  const int at_start_ = device_.calls(Call::kUsage);
};

TEST_F(ResidencyCoreTest, ASampleTellsWhetherTheEstimateIsAnotherOne) {
  const ManagerLock lock(core_.mutex);
  EXPECT_FALSE(core_.sample_passthrough());
  core_.passthrough.begin_change(PassthroughChange::kGrowth);
  device_.set_passthrough(kGranule);
  (void)core_.passthrough.end_change(PassthroughChange::kGrowth);
  EXPECT_TRUE(core_.sample_passthrough());
  EXPECT_EQ(core_.passthrough.bytes(), kGranule);
  EXPECT_FALSE(core_.sampling);
}

TEST_F(ResidencyCoreTest, ASampleThatFailsPutsTheNextOneOff) {
  const ManagerLock lock(core_.mutex);
  device_.fail(Call::kUsage, 1, Status::kDeviceError);
  EXPECT_FALSE(core_.sample_passthrough());
  EXPECT_FALSE(core_.passthrough.is_due(core_.now()));
  EXPECT_FALSE(core_.sampling);
}

// A thread that polls for free memory would otherwise keep pages from being created.
TEST_F(ResidencyCoreTest, ASampleLetsThreadsGoFirstThatWaitToChangeAPage) {
  const ManagerLock lock(core_.mutex);
  ++core_.waiting_for_sample;
  EXPECT_FALSE(core_.sample_passthrough()) << "not within the wait limit";
  EXPECT_EQ(samples(), 0);
  --core_.waiting_for_sample;
  (void)core_.sample_passthrough();
  EXPECT_EQ(samples(), 1);
}

TEST_F(ResidencyCoreTest, ASampleIsNotTakenWhileAPageChanges) {
  const ManagerLock lock(core_.mutex);
  core_.ledger.begin_creation(kGranule);
  EXPECT_FALSE(core_.sample_passthrough()) << "not within the wait limit";
  EXPECT_EQ(samples(), 0);
  EXPECT_FALSE(core_.sampling) << "others may change pages again";
  core_.ledger.end_creation(kGranule, false);
  (void)core_.sample_passthrough();
  EXPECT_EQ(samples(), 1);
}

TEST_F(ResidencyCoreTest, APageChangeWaitsForASampleNoLongerThanTheWaitLimit) {
  const ManagerLock lock(core_.mutex);
  EXPECT_TRUE(core_.wait_for_sample());
  core_.sampling = true;
  EXPECT_FALSE(core_.wait_for_sample()) << "a device that does not answer";
  core_.sampling = false;
  EXPECT_EQ(core_.waiting_for_sample, 0U);
}

TEST_F(ResidencyCoreTest, NobodyWaitsForASampleOnceTheManagerEnds) {
  const ManagerLock lock(core_.mutex);
  core_.sampling = true;
  core_.stopped = true;
  const auto begun = std::chrono::steady_clock::now();
  EXPECT_FALSE(core_.wait_for_sample());
  EXPECT_FALSE(core_.sample_passthrough());
  EXPECT_LT(std::chrono::steady_clock::now() - begun, milliseconds{300});
  core_.sampling = core_.stopped = false;
}

}  // namespace
}  // namespace superpipe::testing
