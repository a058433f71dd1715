// cuGetProcAddress, unsupported functions and refused plugins, on the driver before cuInit: nothing
// here initialises it in this process.
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace simgpu {
namespace {

using ::testing::HasSubstr;
using ::testing::IsNull;
using ::testing::NotNull;

constexpr auto kDefault = CU_GET_PROC_ADDRESS_DEFAULT;
constexpr auto kLegacy = CU_GET_PROC_ADDRESS_LEGACY_STREAM;
constexpr auto kPerThread = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;

struct Answer {
  CUresult result = CUDA_ERROR_UNKNOWN;
  void* function = nullptr;
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
};

Answer ask(const char* name, int version, cuuint64_t flags = kDefault) {
  Answer answer;
  answer.result = cuGetProcAddress_v2(name, &answer.function, version, flags, &answer.status);
  return answer;
}

template <typename F>
void* address(F* function) {
  return reinterpret_cast<void*>(function);
}

TEST(GetProcAddress, PicksTheNewestAbiThatTheVersionHad) {
  EXPECT_EQ(ask("cuCtxCreate", 2000).function, address(&cuCtxCreate));
  EXPECT_EQ(ask("cuCtxCreate", 3010).function, address(&cuCtxCreate));
  EXPECT_EQ(ask("cuCtxCreate", 3020).function, address(&cuCtxCreate_v2));
  EXPECT_EQ(ask("cuCtxCreate", 11030).function, address(&cuCtxCreate_v2));
  EXPECT_EQ(ask("cuCtxCreate", 12040).function, address(&cuCtxCreate_v3));
  EXPECT_EQ(ask("cuCtxCreate", 13000).function, address(&cuCtxCreate_v4));
}

TEST(GetProcAddress, PicksPerThreadVariantsOnlyWhenAsked) {
  EXPECT_EQ(ask("cuLaunchKernel", 13000, kDefault).function, address(&cuLaunchKernel));
  EXPECT_EQ(ask("cuLaunchKernel", 13000, kLegacy).function, address(&cuLaunchKernel));
  EXPECT_EQ(ask("cuLaunchKernel", 13000, kPerThread).function, address(&cuLaunchKernel_ptsz));
  EXPECT_EQ(ask("cuMemcpyHtoD", 13000, kPerThread).function, address(&cuMemcpyHtoD_v2_ptds));
  // No such variant, or not yet: the ordinary one.
  EXPECT_EQ(ask("cuMemAlloc", 13000, kPerThread).function, address(&cuMemAlloc_v2));
  EXPECT_EQ(ask("cuLaunchKernel", 6050, kPerThread).function, address(&cuLaunchKernel));
}

TEST(GetProcAddress, GivesItselfInBothAbis) {
  EXPECT_EQ(ask("cuGetProcAddress", 11030).function,
            reinterpret_cast<void*>(static_cast<CUresult (*)(const char*, void**, int, cuuint64_t)>(
                &cuGetProcAddress)));
  EXPECT_EQ(ask("cuGetProcAddress", 12000).function, address(&cuGetProcAddress_v2));
}

TEST(GetProcAddress, TellsUnknownNamesFromOldVersions) {
  const Answer unknown = ask("cuNoSuchFunction", 13000);
  EXPECT_EQ(unknown.result, CUDA_SUCCESS);
  EXPECT_THAT(unknown.function, IsNull());
  EXPECT_EQ(unknown.status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  const Answer old = ask("cuMemAllocAsync", 11010);
  EXPECT_EQ(old.result, CUDA_SUCCESS);
  EXPECT_THAT(old.function, IsNull());
  EXPECT_EQ(old.status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
  const Answer found = ask("cuMemAllocAsync", 11020);
  EXPECT_THAT(found.function, NotNull());
  EXPECT_EQ(found.status, CU_GET_PROC_ADDRESS_SUCCESS);
}

TEST(GetProcAddress, KnowsBaseNamesOnly) {
  EXPECT_EQ(ask("cuMemAlloc_v2", 13000).status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  EXPECT_EQ(ask("cuLaunchKernel_ptsz", 13000).status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  EXPECT_EQ(ask("cuMem", 13000).status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
}

TEST(GetProcAddress, AnswersTheEmptyNameWithSuccessAndNull) {
  const Answer empty = ask("", 0);
  EXPECT_EQ(empty.result, CUDA_SUCCESS);
  EXPECT_THAT(empty.function, IsNull());
}

TEST(GetProcAddress, RefusesBadArgumentsAndLeavesOutputsAlone) {
  int mark = 0;
  void* function = &mark;
  auto status = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
  EXPECT_EQ(cuGetProcAddress_v2(nullptr, &function, 13000, 0, &status), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuGetProcAddress_v2("cuInit", nullptr, 13000, 0, &status), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuGetProcAddress_v2("cuInit", &function, 13000, 4, &status), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuGetProcAddress_v2("cuInit", &function, 13000, kLegacy | kPerThread, &status),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuGetProcAddress_v2("cuInit", &function, 99000, 0, &status), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(function, &mark);
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
}

TEST(GetProcAddress, DoesWithoutAStatus) {
  void* function = nullptr;
  EXPECT_EQ(cuGetProcAddress_v2("cuInit", &function, 2000, 0, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(function, address(&cuInit));
}

TEST(GetProcAddress, OfTheFirstAbiReportsWhatIsMissingByItsCode) {
  int mark = 0;
  void* function = &mark;
  const auto first =
      static_cast<CUresult (*)(const char*, void**, int, cuuint64_t)>(&cuGetProcAddress);
  EXPECT_EQ(first("cuNoSuchFunction", &function, 11030, 0), CUDA_ERROR_NOT_FOUND);
  EXPECT_EQ(first("cuMemAllocAsync", &function, 11010, 0), CUDA_ERROR_NOT_FOUND);
  EXPECT_EQ(function, &mark);
  EXPECT_EQ(first("cuInit", &function, 11030, 0), CUDA_SUCCESS);
  EXPECT_EQ(function, address(&cuInit));
}

TEST(Driver, ExportsEveryFunctionThatItAnswersWith) {
  Dl_info driver;
  ASSERT_NE(dladdr(reinterpret_cast<void*>(&cuInit), &driver), 0);
  const auto check = [&](const char* name, const char* symbol) {
    void* const found = dlsym(RTLD_DEFAULT, symbol);
    ASSERT_THAT(found, NotNull()) << symbol;
    Dl_info info;
    ASSERT_NE(dladdr(found, &info), 0) << symbol;
    EXPECT_STREQ(info.dli_fname, driver.dli_fname) << name;
  };
#define SIMGPU_ENTRY(name, version, suffix, symbol) check(#name, #symbol);
#include "tools/simgpu/driver/generated/proc_addresses.inc"
#undef SIMGPU_ENTRY
}

TEST(Driver, SaysOnceThatAFunctionIsNotSupported) {
  ::testing::internal::CaptureStderr();
  CUtexref texture = nullptr;
  EXPECT_EQ(cuTexRefCreate(&texture), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(cuTexRefCreate(&texture), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "simgpu: cuTexRefCreate is not supported by simgpu\n");
}

TEST(Driver, NeedsInitialisationBeforeModules) {
  CUmodule module = nullptr;
  CUlibrary library = nullptr;
  EXPECT_EQ(cuModuleLoadData(&module, "x"), CUDA_ERROR_NOT_INITIALIZED);
  EXPECT_EQ(cuLibraryLoadData(&library, "x", nullptr, nullptr, 0, nullptr, nullptr, 0),
            CUDA_ERROR_NOT_INITIALIZED);
}

/// Runs in a child: the first refusal on the way to a loaded module, with plugins `paths`.
[[noreturn]] void load_module_with_plugins(const std::string& paths) {
  setenv("SIMGPU_KERNELS", paths.c_str(), 1);
  CUcontext context = nullptr;
  CUmodule module = nullptr;
  CUresult result = cuInit(0);
  result = result != CUDA_SUCCESS ? result : cuCtxCreate_v2(&context, 0, 0);
  result = result != CUDA_SUCCESS ? result : cuModuleLoadData(&module, ".version 9.0\n");
  std::_Exit(result);
}

std::string plugin(const std::string& name) {
  return std::string(SIMGPU_TEST_PLUGINS) + "/" + name + ".so";
}

TEST(DriverDeathTest, RefusesPluginsThatCannotBeUsedBeforeAnyKernelRuns) {
  using ::testing::ExitedWithCode;
  EXPECT_EXIT(load_module_with_plugins("/no/such/plugin.so"),
              ExitedWithCode(CUDA_ERROR_INVALID_VALUE),
              "simgpu: kernel plugin /no/such/plugin.so cannot be opened");
  EXPECT_EXIT(load_module_with_plugins(plugin("simgpu_test_plugin_empty")),
              ExitedWithCode(CUDA_ERROR_INVALID_VALUE), "does not export simgpu_kernels");
  EXPECT_EXIT(load_module_with_plugins(plugin("simgpu_test_plugin")), ExitedWithCode(CUDA_SUCCESS),
              "");
}

}  // namespace
}  // namespace simgpu
