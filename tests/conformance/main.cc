// conformance [--driver=PATH] [--kernel-ms=N] [GoogleTest's flags]: what superpipe relies on, asked
// of any CUDA driver. Kernels that something is to overtake run for N ms (default 100); on a
// machine so busy that a call takes that long, such tests need more.

#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "tests/conformance/driver.h"
#include "tests/conformance/fixture.h"

namespace {

// The value of --NAME=value among the arguments; empty if it is not there.
std::string option(int argc, char** argv, std::string_view name) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument.substr(0, name.size()) == name) return std::string(argument.substr(name.size()));
  }
  return {};
}

// Says in front of the results which driver they are about.
class DriverDescription : public ::testing::Environment {
 public:
  void SetUp() override {
    int version = 0;
    char name[256] = "no device";
    CUdevice device = 0;
    const conformance::Driver& driver = conformance::cu();
    ASSERT_EQ(driver.cuInit(0), CUDA_SUCCESS);
    ASSERT_EQ(driver.cuDriverGetVersion(&version), CUDA_SUCCESS);
    ASSERT_EQ(driver.cuDeviceGet(&device, 0), CUDA_SUCCESS);
    ASSERT_EQ(driver.cuDeviceGetName(name, sizeof(name), device), CUDA_SUCCESS);
    std::printf("driver %d.%d, device 0: %s\n", version / 1000, version % 1000 / 10, name);
  }
};

}  // namespace

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  // Names can be listed where there is no driver: that is how the build finds the tests.
  if (!GTEST_FLAG_GET(list_tests)) {
    const std::string problem = conformance::open_driver(option(argc, argv, "--driver="));
    if (!problem.empty()) {
      std::fprintf(stderr, "conformance: cannot open the CUDA driver: %s\n", problem.c_str());
      return 2;
    }
    if (const std::string time = option(argc, argv, "--kernel-ms="); !time.empty()) {
      char* end = nullptr;
      const long milliseconds = std::strtol(time.c_str(), &end, 10);
      if (*end != '\0' || milliseconds < 1 || milliseconds > 10'000) {
        std::fprintf(stderr, "conformance: --kernel-ms takes 1 to 10000, not '%s'\n", time.c_str());
        return 2;
      }
      conformance::set_long_time(std::chrono::milliseconds{milliseconds});
    }
    const std::string scenario = option(argc, argv, "--scenario=");
    if (!scenario.empty()) return conformance::run_scenario(scenario);
    ::testing::AddGlobalTestEnvironment(new DriverDescription);
  }
  return RUN_ALL_TESTS();
}
