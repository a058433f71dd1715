#include "tools/superpipe/run_environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>

#include "tests/temporary_folder.h"

namespace superpipe::cli {
namespace {

const Installation kParts = {"/opt/sp/lib/superpipe/libsuperpipe.so",
                             "/opt/sp/lib/superpipe/simgpu",
                             "/opt/sp/lib/superpipe/simgpu/libcuda.so.1",
                             "/opt/sp/lib/superpipe/simgpu/libcudart.so.13",
                             "/opt/sp/lib/superpipe/simgpu/libsimgpu_loader.so",
                             "/opt/sp/lib/superpipe/simgpu/libsimgpu_devices.so"};

using Changes = std::map<std::string, std::optional<std::string>>;

class EnvironmentChanges : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* const name :
         {"LD_AUDIT", "LD_PRELOAD", "LD_LIBRARY_PATH", "SIMGPU_KERNELS", "XLA_FLAGS"}) {
      unsetenv(name);
    }
    for (const Setting& setting : all_settings()) {
      if (setting.has_variable()) unsetenv(setting.variable);
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
  const Changes expected = {{"LD_PRELOAD", kParts.preload_library},
                            {"SUPERPIPE_DRIVER_MARK", std::nullopt},
                            {"SUPERPIPE_FORMER_STATS", std::nullopt},
                            {"SUPERPIPE_FORMER_TIMELINE", std::nullopt},
                            {"SUPERPIPE_POLICY", "auto"},
                            {"SUPERPIPE_RUN_ROOT", std::nullopt},
                            {"SUPERPIPE_SUMMARY", "1"}};
  EXPECT_EQ(changes({}), expected);
}

TEST_F(EnvironmentChanges, PutsTheFolderOfTheDriversOtherNameInFront) {
  setenv("LD_LIBRARY_PATH", "/opt/mine", 1);
  Installation parts = kParts;
  parts.driver_link_folder = "/tmp/links";
  const auto path_in = [&parts](const RunOptions& options) {
    for (const auto& change : environment_changes(options, parts, "/bin/program")) {
      if (change.name == "LD_LIBRARY_PATH") return change.value;
    }
    return std::optional<std::string>();
  };
  RunOptions options;
  EXPECT_EQ(path_in(options), "/tmp/links:/opt/mine");
  options.flag(SettingId::kSimulate) = "1";
  EXPECT_EQ(path_in(options), "/tmp/links:" + kParts.simgpu_folder + ":/opt/mine");
  setenv("SUPERPIPE_OFF", "1", 1);
  EXPECT_EQ(path_in(options), kParts.simgpu_folder + ":/opt/mine");
}

TEST_F(EnvironmentChanges, PutsSimgpuInFrontWhenSimulating) {
  RunOptions options;
  options.flag(SettingId::kSimulate) = "1";
  const Changes expected = {
      {"LD_AUDIT", kParts.simgpu_loader},
      {"LD_PRELOAD", kParts.preload_library + ":" + kParts.simgpu_devices},
      {"LD_LIBRARY_PATH", kParts.simgpu_folder},
      {"SUPERPIPE_DRIVER", kParts.simgpu_driver},
      {"SUPERPIPE_DRIVER_MARK", std::nullopt},
      {"SUPERPIPE_FILL", "zero"},
      {"SUPERPIPE_FORMER_STATS", std::nullopt},
      {"SUPERPIPE_FORMER_TIMELINE", std::nullopt},
      {"SUPERPIPE_HEADROOM", "2M"},
      {"SUPERPIPE_POLICY", "auto"},
      {"SUPERPIPE_RUN_ROOT", std::nullopt},
      {"SUPERPIPE_SUMMARY", "1"},
      {"XLA_FLAGS", "--xla_gpu_autotune_level=0"},
  };
  EXPECT_EQ(changes(options), expected);
}

TEST_F(EnvironmentChanges, HaveXlaMeasureNothingOnSimgpuUnlessTheUserSays) {
  RunOptions options;
  EXPECT_EQ(changes(options).count("XLA_FLAGS"), 0U);
  options.flag(SettingId::kSimulate) = "1";
  setenv("XLA_FLAGS", "--xla_dump_to=/tmp/x", 1);
  EXPECT_EQ(changes(options)["XLA_FLAGS"], "--xla_dump_to=/tmp/x --xla_gpu_autotune_level=0");
  for (const char* const chosen : {"--xla_gpu_autotune_level=4", "/etc/xla--flags"}) {
    setenv("XLA_FLAGS", chosen, 1);
    EXPECT_EQ(changes(options).count("XLA_FLAGS"), 0U) << chosen;
  }
}

// The kernels of a program `file`, of superpipe's installation in `root`.
std::string kernels_found(const std::filesystem::path& root, const std::filesystem::path& file) {
  RunOptions options;
  options.flag(SettingId::kSimulate) = "1";
  Installation parts = kParts;
  parts.doctor_kernels = root / "bin" / "superpipe.simgpu.so";
  for (const auto& change : environment_changes(options, parts, file.string())) {
    if (change.name == "SIMGPU_KERNELS") return change.value.value_or("");
  }
  return {};
}

TEST_F(EnvironmentChanges, FindsTheKernelsOfAnExampleWhereAListCannotNameIt) {
  const std::filesystem::path root = make_temporary_folder("run-environment");
  const std::filesystem::path own = root / "a:b" / "bin";
  std::filesystem::create_directories(own);
  std::filesystem::create_directory_symlink(root / "a:b", root / "link");
  for (const char* const name : {"superpipe-layers", "other"}) {
    std::ofstream(own / (std::string(name) + ".simgpu.so")) << "kernels";
  }
  EXPECT_EQ(kernels_found(root / "link", own / "superpipe-layers"),
            root / "link" / "bin" / "superpipe-layers.simgpu.so");
  EXPECT_EQ(kernels_found(root / "link", own / "other"), "");
  std::filesystem::remove_all(root);
}

TEST_F(EnvironmentChanges, FindsTheKernelsOfAnExampleThatAScriptExecutes) {
  const std::filesystem::path root = make_temporary_folder("run-environment");
  std::filesystem::create_directories(root / "bin");
  std::filesystem::create_directories(root / "scripts");
  for (const char* const name : {"bin/superpipe-layers", "bin/other", "scripts/superpipe-minilm"}) {
    std::ofstream(root / (std::string(name) + ".simgpu.so")) << "kernels";
  }
  EXPECT_EQ(kernels_found(root, root / "bin" / "superpipe-layers"),
            root / "bin" / "superpipe-layers.simgpu.so");
  EXPECT_EQ(kernels_found(root, root / "scripts" / "superpipe-layers"),
            root / "bin" / "superpipe-layers.simgpu.so");
  EXPECT_EQ(kernels_found(root, root / "scripts" / "superpipe-minilm"),
            root / "scripts" / "superpipe-minilm.simgpu.so");
  // A program of the user's is none of ours, whatever lies in our folder.
  EXPECT_EQ(kernels_found(root, root / "scripts" / "other"), "");
  std::filesystem::remove_all(root);
}

TEST_F(EnvironmentChanges, LeavesWhatTheUserSetAloneWhenSimulating) {
  RunOptions options;
  options.flag(SettingId::kSimulate) = "1";
  options.flag(SettingId::kHeadroom) = "1M";
  setenv("SUPERPIPE_FILL", "none", 1);
  Changes got = changes(options);
  EXPECT_EQ(got["SUPERPIPE_HEADROOM"], "1M");
  EXPECT_EQ(got.count("SUPERPIPE_FILL"), 0U);
  options.flag(SettingId::kHeadroom).clear();
  setenv("SUPERPIPE_HEADROOM", "3M", 1);
  EXPECT_EQ(changes(options).count("SUPERPIPE_HEADROOM"), 0U);
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
  options.flag(SettingId::kSimulate) = "1";
  EXPECT_EQ(changes(options)["LD_LIBRARY_PATH"], kParts.simgpu_folder + ":/usr/local/lib");
}

TEST_F(EnvironmentChanges, KeepsAnEarlierAuditBehindSimgpus) {
  setenv("LD_AUDIT", ("/usr/lib/libother.so:" + kParts.simgpu_loader).c_str(), 1);
  RunOptions options;
  EXPECT_EQ(changes(options).count("LD_AUDIT"), 0U);
  options.flag(SettingId::kSimulate) = "1";
  EXPECT_EQ(changes(options)["LD_AUDIT"], kParts.simgpu_loader + ":/usr/lib/libother.so");
}

TEST_F(EnvironmentChanges, LeavesOnlySimgpuInFrontWhenSwitchedOff) {
  setenv("SUPERPIPE_OFF", "1", 1);
  EXPECT_EQ(changes({}).count("LD_PRELOAD"), 0U);
  RunOptions options;
  options.flag(SettingId::kSimulate) = "1";
  EXPECT_EQ(changes(options)["LD_PRELOAD"], kParts.simgpu_devices);
  EXPECT_EQ(changes(options)["LD_AUDIT"], kParts.simgpu_loader);
}

TEST_F(EnvironmentChanges, LetsAFlagForBytesReplaceVariablesForLayers) {
  RunOptions options;
  options.flag(SettingId::kGpuMem) = "6G";
  Changes got = changes(options);
  EXPECT_EQ(got["SUPERPIPE_GPU_MEM"], "6G");
  ASSERT_EQ(got.count("SUPERPIPE_K"), 1U);
  EXPECT_EQ(got["SUPERPIPE_K"], std::nullopt);
  ASSERT_EQ(got.count("SUPERPIPE_K_PRIME"), 1U);
  EXPECT_EQ(got["SUPERPIPE_K_PRIME"], std::nullopt);
}

TEST_F(EnvironmentChanges, LetsAFlagForLayersReplaceTheVariableForBytes) {
  RunOptions options;
  options.flag(SettingId::kK) = "4";
  options.flag(SettingId::kKPrime) = "2";
  Changes got = changes(options);
  EXPECT_EQ(got["SUPERPIPE_K"], "4");
  EXPECT_EQ(got["SUPERPIPE_K_PRIME"], "2");
  ASSERT_EQ(got.count("SUPERPIPE_GPU_MEM"), 1U);
  EXPECT_EQ(got["SUPERPIPE_GPU_MEM"], std::nullopt);
}

TEST_F(EnvironmentChanges, ChoosesAutoWhereNothingElseWasChosen) {
  EXPECT_EQ(changes({})["SUPERPIPE_POLICY"], "auto");
  for (const SettingId id : {SettingId::kK, SettingId::kGpuMem}) {
    RunOptions options;
    options.flag(id) = "4";
    EXPECT_EQ(changes(options).count("SUPERPIPE_POLICY"), 0U);
  }
  for (const char* const variable : {"SUPERPIPE_K", "SUPERPIPE_GPU_MEM", "SUPERPIPE_POLICY"}) {
    setenv(variable, "4", 1);
    EXPECT_EQ(changes({}).count("SUPERPIPE_POLICY"), 0U) << variable;
    unsetenv(variable);
  }
}

TEST_F(EnvironmentChanges, LetsAFlagForLayersReplaceAPolicyForBytes) {
  RunOptions options;
  options.flag(SettingId::kK) = "4";
  setenv("SUPERPIPE_POLICY", "auto", 1);  // as a run around this one has set it
  auto got = changes(options);
  ASSERT_EQ(got.count("SUPERPIPE_POLICY"), 1U);
  EXPECT_EQ(got["SUPERPIPE_POLICY"], std::nullopt);
  setenv("SUPERPIPE_POLICY", "naive", 1);
  EXPECT_EQ(changes(options).count("SUPERPIPE_POLICY"), 0U);
  unsetenv("SUPERPIPE_POLICY");
}

TEST_F(EnvironmentChanges, MirrorsEveryFlag) {
  for (const Setting& setting : all_settings()) {
    if (!setting.has_flag() || !setting.has_variable()) continue;
    RunOptions options;
    options.flag(setting.id) = "value";
    const Changes got = changes(options);
    const auto found = got.find(setting.variable);
    ASSERT_NE(found, got.end()) << setting.flag;
    // These files are opened by processes that may have gone to another folder.
    const bool is_absolute = setting.id == SettingId::kTrace || setting.id == SettingId::kPlan;
    EXPECT_EQ(found->second, is_absolute ? std::filesystem::absolute("value").string() : "value")
        << setting.flag;
  }
}

TEST_F(EnvironmentChanges, TakesAwayKPrimeOfAnotherK) {
  RunOptions options;
  options.flag(SettingId::kK) = "4";
  Changes got = changes(options);
  ASSERT_EQ(got.count("SUPERPIPE_K_PRIME"), 1U);
  EXPECT_EQ(got["SUPERPIPE_K_PRIME"], std::nullopt);
}

TEST_F(EnvironmentChanges, AreThoseThatTheFlagsWereCheckedAgainst) {
  setenv("SUPERPIPE_K", "2", 1);
  setenv("SUPERPIPE_K_PRIME", "1", 1);
  setenv("SUPERPIPE_WAIT_MS", "10", 1);
  RunOptions options;
  options.flag(SettingId::kGpuMem) = "6G";
  const SettingValues values =
      values_of(options, [](const char* name) { return std::getenv(name); });
  EXPECT_EQ(values.given(SettingId::kK), nullptr);
  EXPECT_EQ(values.given(SettingId::kKPrime), nullptr);
  ASSERT_NE(values.given(SettingId::kWaitMs), nullptr);
  EXPECT_EQ(values.given(SettingId::kWaitMs)->spelled(), "SUPERPIPE_WAIT_MS=10");
  ASSERT_NE(values.given(SettingId::kGpuMem), nullptr);
  EXPECT_EQ(values.given(SettingId::kGpuMem)->spelled(), "--gpu-mem 6G");
}

}  // namespace
}  // namespace superpipe::cli
