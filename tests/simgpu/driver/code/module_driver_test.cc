// Modules, libraries, functions and variables through the built driver.
#include <fstream>

#include "tests/simgpu/driver/support/module_fixture.h"

namespace simgpu {
namespace {

using ::testing::ElementsAre;
using ::testing::IsNull;
using ::testing::NotNull;

using ModuleDriver = DriverTest;
using LibraryDriver = DriverTest;

std::string image_path(const std::string& name) {
  return std::string(SIMGPU_TEST_IMAGES) + "/" + name;
}

CUlibrary load_library(const std::string& image = "kernels.fatbin") {
  const std::vector<std::byte> bytes = read_test_image(image);
  CUlibrary library = nullptr;
  EXPECT_EQ(cuLibraryLoadData(&library, bytes.data(), nullptr, nullptr, 0, nullptr, nullptr, 0),
            CUDA_SUCCESS);
  return library;
}

CUkernel kernel(CUlibrary library, const char* name) {
  CUkernel found = nullptr;
  EXPECT_EQ(cuLibraryGetKernel(&found, library, name), CUDA_SUCCESS) << name;
  return found;
}

TEST_F(ModuleDriver, LoadsEveryKindOfImage) {
  for (const char* const image :
       {"kernels.cubin", "kernels.fatbin", "kernels.zstd.fatbin", "kernels.lz4.fatbin",
        "kernels.several.fatbin", "kernels.ptx.fatbin"}) {
    EXPECT_THAT(function(load(image), "mixed"), NotNull()) << image;
  }
  std::vector<std::byte> text = read_test_image("kernels.ptx");
  text.push_back(std::byte{0});
  CUmodule module = nullptr;
  ASSERT_EQ(cuModuleLoadDataEx(&module, text.data(), 0, nullptr, nullptr), CUDA_SUCCESS);
  EXPECT_THAT(function(module, "mixed"), NotNull());
}

TEST_F(ModuleDriver, LoadsFromAFile) {
  CUmodule module = nullptr;
  ASSERT_EQ(cuModuleLoad(&module, image_path("kernels.zstd.fatbin").c_str()), CUDA_SUCCESS);
  EXPECT_THAT(function(module, "add"), NotNull());
  EXPECT_EQ(cuModuleLoad(&module, image_path("no such file").c_str()), CUDA_ERROR_FILE_NOT_FOUND);
}

TEST_F(ModuleDriver, RefusesBadImagesAndLeavesTheHandleAlone) {
  int mark = 0;
  auto* const untouched = reinterpret_cast<CUmodule>(&mark);
  CUmodule module = untouched;
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(cuModuleLoadData(&module, "no image"), CUDA_ERROR_INVALID_IMAGE);
  EXPECT_EQ(cuModuleLoadData(&module, ".version 9.0\n.entry k("), CUDA_ERROR_INVALID_PTX);
  std::vector<std::byte> foreign = read_test_image("kernels.cubin");
  foreign[18] = std::byte{62};  // e_machine: x86-64
  foreign[19] = std::byte{0};
  EXPECT_EQ(cuModuleLoadData(&module, foreign.data()), CUDA_ERROR_INVALID_IMAGE);
  const std::uint32_t empty[] = {0xba55ed50, 0x00100001, 0, 0};
  EXPECT_EQ(cuModuleLoadFatBinary(&module, empty), CUDA_ERROR_NO_BINARY_FOR_GPU);
  EXPECT_EQ(cuModuleLoadData(&module, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuModuleLoadData(nullptr, "no image"), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(module, untouched);
  const std::string lines = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 4) << lines;
}

TEST_F(ModuleDriver, NeedsACurrentContext) {
  const CUmodule module = load();
  ASSERT_EQ(cuCtxPopCurrent_v2(nullptr), CUDA_SUCCESS);
  CUmodule other = nullptr;
  CUfunction found = nullptr;
  EXPECT_EQ(cuModuleLoadData(&other, "x"), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cuModuleGetFunction(&found, module, "add"), CUDA_ERROR_INVALID_CONTEXT);
  ASSERT_EQ(cuCtxPushCurrent_v2(context_), CUDA_SUCCESS);
}

TEST_F(ModuleDriver, FindsFunctionsByNameAndByEnumeration) {
  const CUmodule module = load();
  unsigned count = 0;
  ASSERT_EQ(cuModuleGetFunctionCount(&count, module), CUDA_SUCCESS);
  ASSERT_EQ(count, 7U);
  std::vector<CUfunction> all(count);
  ASSERT_EQ(cuModuleEnumerateFunctions(all.data(), count, module), CUDA_SUCCESS);
  EXPECT_THAT(all, ::testing::Contains(function(module, "add")));
  for (const CUfunction each : all) {
    const char* name = nullptr;
    ASSERT_EQ(cuFuncGetName(&name, each), CUDA_SUCCESS);
    EXPECT_EQ(function(module, name), each);
    CUmodule owner = nullptr;
    EXPECT_EQ(cuFuncGetModule(&owner, each), CUDA_SUCCESS);
    EXPECT_EQ(owner, module);
  }
  CUfunction none = nullptr;
  EXPECT_EQ(cuModuleGetFunction(&none, module, "helper"), CUDA_ERROR_NOT_FOUND);
  EXPECT_EQ(cuModuleGetFunction(&none, module, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuModuleGetFunction(nullptr, module, "add"), CUDA_ERROR_INVALID_VALUE);
  EXPECT_THAT(none, IsNull());
}

TEST_F(ModuleDriver, TellsParameterLayoutsUntilTheLast) {
  const CUfunction mixed = function(load(), "mixed");
  std::vector<ParameterLayout> layout;
  std::size_t offset = 0;
  std::size_t size = 0;
  CUresult result = CUDA_SUCCESS;
  for (std::size_t i = 0; (result = cuFuncGetParamInfo(mixed, i, &offset, &size)) == CUDA_SUCCESS;
       ++i) {
    layout.push_back({offset, size});
  }
  EXPECT_EQ(result, CUDA_ERROR_INVALID_VALUE);
  using L = ParameterLayout;
  EXPECT_THAT(layout,
              ElementsAre(L{0, 1}, L{2, 2}, L{4, 4}, L{8, 8}, L{16, 32}, L{48, 1}, L{56, 8}));
}

TEST_F(ModuleDriver, GivesVariablesTheirInitialValues) {
  const CUmodule module = load();
  CUdeviceptr address = 0;
  std::size_t bytes = 0;
  ASSERT_EQ(cuModuleGetGlobal_v2(&address, &bytes, module, "table"), CUDA_SUCCESS);
  EXPECT_EQ(bytes, 16U);
  EXPECT_THAT(host<float>(address, 4), ElementsAre(1.0F, 2.0F, 3.0F, 4.0F));
  ASSERT_EQ(cuModuleGetGlobal_v2(&address, nullptr, module, "counter"), CUDA_SUCCESS);
  EXPECT_THAT(host<int>(address, 1), ElementsAre(7));
  ASSERT_EQ(cuModuleGetGlobal_v2(nullptr, &bytes, module, "zeros"), CUDA_SUCCESS);
  EXPECT_EQ(bytes, 4000U);
  EXPECT_EQ(cuModuleGetGlobal_v2(nullptr, nullptr, module, "zeros"), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuModuleGetGlobal_v2(&address, &bytes, module, "no such"), CUDA_ERROR_NOT_FOUND);
}

TEST_F(ModuleDriver, GivesEachModuleItsOwnVariables) {
  CUdeviceptr first = 0;
  CUdeviceptr second = 0;
  ASSERT_EQ(cuModuleGetGlobal_v2(&first, nullptr, load(), "counter"), CUDA_SUCCESS);
  ASSERT_EQ(cuModuleGetGlobal_v2(&second, nullptr, load(), "counter"), CUDA_SUCCESS);
  const int value = 99;
  ASSERT_EQ(cuMemcpyHtoD_v2(first, &value, sizeof(value)), CUDA_SUCCESS);
  EXPECT_THAT(host<int>(first, 1), ElementsAre(99));
  EXPECT_THAT(host<int>(second, 1), ElementsAre(7));
}

TEST_F(ModuleDriver, ReturnsMemoryAndForgetsHandlesOnUnload) {
  const std::size_t before = free_bytes();
  const CUmodule module = load();
  const CUfunction add = function(module, "add");
  EXPECT_LT(free_bytes(), before);
  ASSERT_EQ(cuModuleUnload(module), CUDA_SUCCESS);
  EXPECT_EQ(free_bytes(), before);
  EXPECT_EQ(cuModuleUnload(module), CUDA_ERROR_INVALID_HANDLE);
  CUfunction found = nullptr;
  EXPECT_EQ(cuModuleGetFunction(&found, module, "add"), CUDA_ERROR_INVALID_HANDLE);
  const char* name = nullptr;
  EXPECT_EQ(cuFuncGetName(&name, add), CUDA_ERROR_INVALID_HANDLE);
  load();  // no handle comes back to life
  EXPECT_EQ(cuFuncGetName(&name, add), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(ModuleDriver, ForgetsModulesOfADestroyedContext) {
  CUcontext other = nullptr;
  ASSERT_EQ(cuCtxCreate_v2(&other, 0, 0), CUDA_SUCCESS);
  const CUfunction add = function(load(), "add");
  ASSERT_EQ(cuCtxDestroy_v2(other), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxSetCurrent(context_), CUDA_SUCCESS);
  const char* name = nullptr;
  EXPECT_EQ(cuFuncGetName(&name, add), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(ModuleDriver, ReportsAndSetsAttributes) {
  const CUmodule module = load();
  const CUfunction bounded = function(module, kBoundedName);
  int value = 0;
  ASSERT_EQ(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, bounded),
            CUDA_SUCCESS);
  EXPECT_EQ(value, 128);
  ASSERT_EQ(
      cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function(module, kCopyName)),
      CUDA_SUCCESS);
  EXPECT_EQ(value, 512);
  constexpr auto kDynamic = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
  EXPECT_EQ(cuFuncSetAttribute(bounded, kDynamic, 100000), CUDA_SUCCESS);
  EXPECT_EQ(cuFuncGetAttribute(&value, kDynamic, bounded), CUDA_SUCCESS);
  EXPECT_EQ(value, 100000);
  EXPECT_EQ(cuFuncSetAttribute(nullptr, kDynamic, 1), CUDA_ERROR_INVALID_HANDLE);
  CUfunctionLoadingState state = CU_FUNCTION_LOADING_STATE_UNLOADED;
  EXPECT_EQ(cuFuncIsLoaded(&state, bounded), CUDA_SUCCESS);
  EXPECT_EQ(state, CU_FUNCTION_LOADING_STATE_LOADED);
}

TEST_F(LibraryDriver, LoadsWithoutAContext) {
  ASSERT_EQ(cuCtxPopCurrent_v2(nullptr), CUDA_SUCCESS);
  const CUlibrary library = load_library();
  unsigned count = 0;
  EXPECT_EQ(cuLibraryGetKernelCount(&count, library), CUDA_SUCCESS);
  EXPECT_EQ(count, 7U);
  EXPECT_THAT(kernel(library, "add"), NotNull());
  CUfunction none = nullptr;
  EXPECT_EQ(cuKernelGetFunction(&none, kernel(library, "add")), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cuLibraryUnload(library), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxPushCurrent_v2(context_), CUDA_SUCCESS);
}

TEST_F(LibraryDriver, DescribesItsKernels) {
  const CUlibrary library = load_library();
  std::vector<CUkernel> all(6);
  ASSERT_EQ(cuLibraryEnumerateKernels(all.data(), 6, library), CUDA_SUCCESS);
  for (const CUkernel each : all) {
    const char* name = nullptr;
    ASSERT_EQ(cuKernelGetName(&name, each), CUDA_SUCCESS);
    EXPECT_EQ(kernel(library, name), each);
    CUlibrary owner = nullptr;
    EXPECT_EQ(cuKernelGetLibrary(&owner, each), CUDA_SUCCESS);
    EXPECT_EQ(owner, library);
  }
  std::size_t offset = 0;
  std::size_t size = 0;
  EXPECT_EQ(cuKernelGetParamInfo(kernel(library, "add"), 2, &offset, &size), CUDA_SUCCESS);
  EXPECT_EQ(offset, 16U);
  EXPECT_EQ(size, 4U);
  EXPECT_EQ(cuKernelGetParamInfo(kernel(library, "add"), 3, &offset, &size),
            CUDA_ERROR_INVALID_VALUE);
  int value = 0;
  EXPECT_EQ(cuKernelGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK,
                                 kernel(library, kBoundedName), 0),
            CUDA_SUCCESS);
  EXPECT_EQ(value, 128);
  EXPECT_EQ(cuKernelGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, all[0], 77),
            CUDA_ERROR_INVALID_DEVICE);
  CUkernel none = nullptr;
  EXPECT_EQ(cuLibraryGetKernel(&none, library, "helper"), CUDA_ERROR_NOT_FOUND);
  EXPECT_EQ(cuLibraryUnload(library), CUDA_SUCCESS);
}

TEST_F(LibraryDriver, IsOneModulePerContext) {
  const CUlibrary library = load_library();
  CUmodule module = nullptr;
  CUmodule again = nullptr;
  ASSERT_EQ(cuLibraryGetModule(&module, library), CUDA_SUCCESS);
  ASSERT_EQ(cuLibraryGetModule(&again, library), CUDA_SUCCESS);
  EXPECT_EQ(module, again);
  CUfunction by_kernel = nullptr;
  ASSERT_EQ(cuKernelGetFunction(&by_kernel, kernel(library, "add")), CUDA_SUCCESS);
  EXPECT_EQ(by_kernel, function(module, "add"));
  CUdeviceptr here = 0;
  ASSERT_EQ(cuLibraryGetGlobal(&here, nullptr, library, "counter"), CUDA_SUCCESS);

  CUcontext other = nullptr;
  ASSERT_EQ(cuCtxCreate_v2(&other, 0, 0), CUDA_SUCCESS);
  CUdeviceptr there = 0;
  ASSERT_EQ(cuLibraryGetGlobal(&there, nullptr, library, "counter"), CUDA_SUCCESS);
  EXPECT_NE(here, there);
  ASSERT_EQ(cuCtxDestroy_v2(other), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxSetCurrent(context_), CUDA_SUCCESS);
  EXPECT_THAT(host<int>(here, 1), ElementsAre(7));
  EXPECT_EQ(cuModuleUnload(module), CUDA_ERROR_NOT_PERMITTED);
  EXPECT_EQ(cuLibraryUnload(library), CUDA_SUCCESS);
}

TEST_F(LibraryDriver, ReturnsMemoryAndForgetsHandlesOnUnload) {
  const std::size_t before = free_bytes();
  const CUlibrary library = load_library();
  const CUkernel add = kernel(library, "add");
  CUmodule module = nullptr;
  ASSERT_EQ(cuLibraryGetModule(&module, library), CUDA_SUCCESS);
  EXPECT_LT(free_bytes(), before);
  ASSERT_EQ(cuLibraryUnload(library), CUDA_SUCCESS);
  EXPECT_EQ(free_bytes(), before);
  const char* name = nullptr;
  EXPECT_EQ(cuKernelGetName(&name, add), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuLibraryUnload(library), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(LibraryDriver, HasNoManagedVariables) {
  const CUlibrary library = load_library();
  CUdeviceptr address = 0;
  EXPECT_EQ(cuLibraryGetManaged(&address, nullptr, library, "counter"), CUDA_ERROR_NOT_FOUND);
  EXPECT_EQ(cuLibraryUnload(library), CUDA_SUCCESS);
}

TEST_F(LibraryDriver, RefusesUnknownOptions) {
  const std::vector<std::byte> bytes = read_test_image("kernels.fatbin");
  CUlibrary library = nullptr;
  auto option = CU_LIBRARY_NUM_OPTIONS;
  void* value = nullptr;
  EXPECT_EQ(cuLibraryLoadData(&library, bytes.data(), nullptr, nullptr, 0, &option, &value, 1),
            CUDA_ERROR_INVALID_VALUE);
  option = CU_LIBRARY_BINARY_IS_PRESERVED;
  EXPECT_EQ(cuLibraryLoadData(&library, bytes.data(), nullptr, nullptr, 0, &option, &value, 1),
            CUDA_SUCCESS);
  EXPECT_EQ(cuLibraryUnload(library), CUDA_SUCCESS);
}

}  // namespace
}  // namespace simgpu
