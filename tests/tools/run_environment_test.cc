#include "tools/superpipe/run_environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <optional>
#include <string>

namespace superpipe::cli {
namespace {

const Installation kParts = {"/opt/sp/lib/libsuperpipe.so", "/opt/sp/lib/superpipe/simgpu",
                             "/opt/sp/lib/superpipe/simgpu/libcuda.so.1",
                             "/opt/sp/lib/superpipe/simgpu/libcudart.so.13"};

using Changes = std::map<std::string, std::optional<std::string>>;

class EnvironmentChanges : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* const name :
         {"LD_PRELOAD", "LD_LIBRARY_PATH", "SUPERPIPE_OFF", "SUPERPIPE_FILL", "SIMGPU_KERNELS"}) {
      unsetenv(name);
    }
  }
  static Changes changes(const RunOptions& options) {
    Changes map;
    for (const auto& change : environment_changes(options, kParts, "/bin/program")) {
      map[change.name] = change.value;
    }
    return map;
  }
};

TEST_F(EnvironmentChanges, PreloadsTheLibraryAndAsksForASummary) {
  const Changes expected = {{"LD_PRELOAD", kParts.preload_library}, {"SUPERPIPE_SUMMARY", "1"}};
  EXPECT_EQ(changes({}), expected);
}

TEST_F(EnvironmentChanges, PutsSimgpuInFrontWhenSimulating) {
  RunOptions options;
  options.simulate = true;
  const Changes expected = {
      {"LD_PRELOAD", kParts.preload_library + ":" + kParts.simgpu_runtime},
      {"LD_LIBRARY_PATH", kParts.simgpu_folder},
      {"SUPERPIPE_DRIVER", kParts.simgpu_driver},
      {"SUPERPIPE_FILL", "zero"},
      {"SUPERPIPE_SUMMARY", "1"},
  };
  EXPECT_EQ(changes(options), expected);
}

TEST_F(EnvironmentChanges, KeepsAnEarlierPreloadBehindOurs) {
  setenv("LD_PRELOAD", "/usr/lib/libother.so /usr/lib/third.so", 1);
  EXPECT_EQ(changes({})["LD_PRELOAD"],
            kParts.preload_library + ":/usr/lib/libother.so:/usr/lib/third.so");
}

TEST_F(EnvironmentChanges, LoadsNothingTwiceInARunInsideARun) {
  setenv("LD_PRELOAD", ("/usr/lib/libother.so:" + kParts.preload_library).c_str(), 1);
  EXPECT_EQ(changes({})["LD_PRELOAD"], kParts.preload_library + ":/usr/lib/libother.so");
}

TEST_F(EnvironmentChanges, KeepsAnEarlierLibraryPathBehindSimgpu) {
  setenv("LD_LIBRARY_PATH", "/usr/local/lib", 1);
  RunOptions options;
  options.simulate = true;
  EXPECT_EQ(changes(options)["LD_LIBRARY_PATH"], kParts.simgpu_folder + ":/usr/local/lib");
}

TEST_F(EnvironmentChanges, LeavesOnlySimgpuInFrontWhenSwitchedOff) {
  setenv("SUPERPIPE_OFF", "1", 1);
  EXPECT_EQ(changes({}).count("LD_PRELOAD"), 0U);
  RunOptions options;
  options.simulate = true;
  EXPECT_EQ(changes(options)["LD_PRELOAD"], kParts.simgpu_runtime);
}

TEST_F(EnvironmentChanges, LetsAFlagForBytesReplaceVariablesForLayers) {
  RunOptions options;
  options.gpu_mem = "6G";
  Changes got = changes(options);
  EXPECT_EQ(got["SUPERPIPE_GPU_MEM"], "6G");
  ASSERT_EQ(got.count("SUPERPIPE_K"), 1U);
  EXPECT_EQ(got["SUPERPIPE_K"], std::nullopt);
  ASSERT_EQ(got.count("SUPERPIPE_K_PRIME"), 1U);
  EXPECT_EQ(got["SUPERPIPE_K_PRIME"], std::nullopt);
}

TEST_F(EnvironmentChanges, LetsAFlagForLayersReplaceTheVariableForBytes) {
  RunOptions options;
  options.k = "4";
  options.k_prime = "2";
  Changes got = changes(options);
  EXPECT_EQ(got["SUPERPIPE_K"], "4");
  EXPECT_EQ(got["SUPERPIPE_K_PRIME"], "2");
  ASSERT_EQ(got.count("SUPERPIPE_GPU_MEM"), 1U);
  EXPECT_EQ(got["SUPERPIPE_GPU_MEM"], std::nullopt);
}

TEST_F(EnvironmentChanges, MirrorsEveryFlag) {
  RunOptions options;
  for (const MirroredFlag& mirrored : mirrored_flags()) options.*mirrored.value = "value";
  options.strict = true;
  const Changes got = changes(options);
  for (const MirroredFlag& mirrored : mirrored_flags()) {
    const auto found = got.find(mirrored.variable);
    ASSERT_NE(found, got.end()) << mirrored.flag;
    EXPECT_EQ(found->second, "value") << mirrored.flag;
  }
  EXPECT_EQ(got.at("SUPERPIPE_STRICT"), "1");
}

}  // namespace
}  // namespace superpipe::cli
