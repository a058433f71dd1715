#include "tools/superpipe/driver_probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>

namespace superpipe::cli {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

DriverProbe probe_fake(const char* behaviour, milliseconds limit = seconds(60)) {
  setenv("FAKE_DRIVER", behaviour, 1);
  return probe_driver(FAKE_DRIVER_PATH, ProbeDepth::kDevices, limit);
}

TEST(ProbeDriver, DescribesDevicesOfAWorkingDriver) {
  const DriverProbe found = probe_fake("work");
  EXPECT_EQ(found.outcome, DriverProbe::Outcome::kUsable);
  EXPECT_EQ(found.path, FAKE_DRIVER_PATH);
  EXPECT_EQ(found.version, 13000);
  ASSERT_EQ(found.devices.size(), 1U);
  const ProbedDevice& device = found.devices[0];
  EXPECT_EQ(device.name, "Fake GPU 3000");
  EXPECT_EQ(device.total_bytes, std::uint64_t{1} << 30);
  EXPECT_EQ(device.compute_major, 9);
  EXPECT_EQ(device.compute_minor, 0);
  EXPECT_EQ(device.copy_engines, 2);
  EXPECT_TRUE(device.virtual_memory);
  EXPECT_TRUE(device.memory_pools);
  EXPECT_FALSE(device.host_located_memory);  // the driver does not know the attribute
  EXPECT_EQ(device.host_numa_node, 0);
  EXPECT_EQ(device.capability("copy_engines"), 2);
  EXPECT_EQ(device.capability("tensor_maps"), 0);  // the driver does not know the attribute
  EXPECT_FALSE(found.is_simulated());
  EXPECT_FALSE(found.batch_copies);
}

TEST(ProbeDriver, TouchesNoDeviceWhenItOnlyOpens) {
  setenv("FAKE_DRIVER", "crash", 1);
  const DriverProbe found = probe_driver(FAKE_DRIVER_PATH, ProbeDepth::kOpen, seconds(60));
  EXPECT_EQ(found.outcome, DriverProbe::Outcome::kUsable);
  EXPECT_TRUE(found.devices.empty());
}

TEST(ProbeDriver, SurvivesACrashAndSaysInWhichCall) {
  const DriverProbe found = probe_fake("crash");
  EXPECT_EQ(found.outcome, DriverProbe::Outcome::kCrashed);
  EXPECT_THAT(found.detail, HasSubstr("cuInit"));
}

TEST(ProbeDriver, EndsAChildThatHangs) {
  const DriverProbe found = probe_fake("hang", milliseconds(300));
  EXPECT_EQ(found.outcome, DriverProbe::Outcome::kHung);
  EXPECT_THAT(found.detail, HasSubstr("while "));
}

TEST(ProbeDriver, NamesTheErrorOfInit) {
  const DriverProbe found = probe_fake("fail");
  EXPECT_EQ(found.outcome, DriverProbe::Outcome::kInitFailed);
  EXPECT_EQ(found.detail, "cuInit: CUDA_ERROR_NO_DEVICE");
}

TEST(ProbeDriver, TellsADriverThatIsTooOld) {
  setenv("FAKE_DRIVER", "work", 1);
  for (const ProbeDepth depth : {ProbeDepth::kOpen, ProbeDepth::kDevices}) {
    const DriverProbe found = probe_driver(OLD_DRIVER_PATH, depth, seconds(60));
    EXPECT_EQ(found.outcome, DriverProbe::Outcome::kTooOld);
    EXPECT_THAT(found.detail, HasSubstr("11.4"));
  }
}

TEST(ProbeDriver, TakesNoDriverThatCannotTellKernelsParameters) {
  for (const ProbeDepth depth : {ProbeDepth::kOpen, ProbeDepth::kDevices}) {
    setenv("FAKE_DRIVER", "old", 1);
    const DriverProbe old = probe_driver(FAKE_DRIVER_PATH, depth, seconds(60));
    EXPECT_EQ(old.outcome, DriverProbe::Outcome::kTooOld);
    EXPECT_EQ(old.version, 12030);
    EXPECT_THAT(old.detail, HasSubstr("CUDA 12.3"));
    setenv("FAKE_DRIVER", "oldest", 1);
    const DriverProbe oldest = probe_driver(FAKE_DRIVER_PATH, depth, seconds(60));
    EXPECT_EQ(oldest.outcome, DriverProbe::Outcome::kUsable);
    EXPECT_EQ(oldest.version, 12040);
  }
}

TEST(ProbeDriver, TellsALibraryThatIsNoDriver) {
  const DriverProbe found = probe_driver("libm.so.6", ProbeDepth::kOpen, seconds(60));
  EXPECT_EQ(found.outcome, DriverProbe::Outcome::kNotADriver);
  EXPECT_EQ(found.detail, "it has no cuInit");
  EXPECT_THAT(found.path, HasSubstr("/libm.so.6"));  // where the loader found it
}

TEST(ProbeDriver, TellsAFileThatIsNoLibrary) {
  const DriverProbe found = probe_driver("/etc/passwd", ProbeDepth::kOpen, seconds(60));
  EXPECT_EQ(found.outcome, DriverProbe::Outcome::kNotADriver);
}

TEST(ProbeDriver, TellsThatThereIsNone) {
  const DriverProbe found =
      probe_driver("libno-such-driver.so.1", ProbeDepth::kDevices, seconds(60));
  EXPECT_EQ(found.outcome, DriverProbe::Outcome::kNotFound);
}

}  // namespace
}  // namespace superpipe::cli
