// What the parts of a manager share: samples of the device, and pages that change.
#include "residency/residency_core.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <optional>

#include "tests/aside_call.h"
#include "tests/hang_limit.h"
#include "tests/residency/core_fixture.h"

namespace superpipe::testing {
namespace {

class ResidencyCoreTest : public CoreTest {
 protected:
  explicit ResidencyCoreTest(std::chrono::milliseconds wait_limit = kHangLimit)
      : CoreTest(waiting(wait_limit)) {}

  [[nodiscard]] int samples() { return device_.calls(Call::kUsage) - at_start_; }
  /// Samples until it was done: the limit of each wait is a real time, which may pass at any point.
  void sample_at_last() REQUIRES(manager_lock) {
    while (samples() == 0) (void)core_.sample_passthrough();
  }

  const int at_start_ = device_.calls(Call::kUsage);

 private:
  static ResidencyOptions waiting(std::chrono::milliseconds limit) {
    ResidencyOptions options = options_of(1024);
    options.wait_limit = options.sample_limit = limit;
    return options;
  }
};

/// A core whose waits end soon, for what never comes.
class ImpatientCoreTest : public ResidencyCoreTest {
 protected:
  ImpatientCoreTest() : ResidencyCoreTest(std::chrono::milliseconds{1}) {}
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
TEST_F(ImpatientCoreTest, ASampleLetsThreadsGoFirstThatWaitToChangeAPage) {
  const ManagerLock lock(core_.mutex);
  ++core_.waiting_for_sample;
  EXPECT_FALSE(core_.sample_passthrough()) << "not within the wait limit";
  EXPECT_EQ(samples(), 0);
  --core_.waiting_for_sample;
  sample_at_last();
}

TEST_F(ImpatientCoreTest, ASampleIsNotTakenWhileAPageChanges) {
  const ManagerLock lock(core_.mutex);
  core_.ledger.begin_creation(kGranule);
  EXPECT_FALSE(core_.sample_passthrough()) << "not within the wait limit";
  EXPECT_EQ(samples(), 0);
  EXPECT_FALSE(core_.sampling) << "others may change pages again";
  core_.ledger.end_creation(kGranule, false);
  sample_at_last();
}

TEST_F(ImpatientCoreTest, APageChangeWaitsForASampleNoLongerThanTheWaitLimit) {
  const ManagerLock lock(core_.mutex);
  EXPECT_TRUE(core_.wait_for_sample());
  core_.sampling = true;
  EXPECT_FALSE(core_.wait_for_sample()) << "a device that does not answer";
  core_.sampling = false;
  EXPECT_EQ(core_.waiting_for_sample, 0U);
}

TEST_F(ResidencyCoreTest, NobodyWaitsForASampleOnceTheManagerEnds) {
  std::atomic<bool> got_in{false};
  std::optional<AsideCall<void>> other;
  {
    const ManagerLock lock(core_.mutex);
    // Whoever waits opens the mutex, and lets this thread in.
    other.emplace([&] {
      const ManagerLock theirs(core_.mutex);
      got_in = true;
    });
    EXPECT_TRUE(other->waits());
    core_.sampling = true;
    core_.stopped = true;
    EXPECT_FALSE(core_.wait_for_sample());
    EXPECT_FALSE(core_.sample_passthrough());
    EXPECT_FALSE(got_in);
    core_.sampling = core_.stopped = false;
  }
  other->get();
}

}  // namespace
}  // namespace superpipe::testing
