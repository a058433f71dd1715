// Code that comes and goes: cached layouts, and the memory that it takes.
#include <gtest/gtest.h>

#include "interposer/kernels/kernel_handles.h"
#include "tests/interposer/managed_fixture.h"

namespace superpipe {
namespace {

class ModuleHooksTest : public testing::BudgetFixture {
 protected:
  void SetUp() override {
    BudgetFixture::SetUp();
    driver().cuModuleLoad = [](CUmodule* module, const char*) {
      *module = reinterpret_cast<CUmodule>(0x8880);
      testing::change_device_usage(4 << 20);
      return CUDA_SUCCESS;
    };
    driver().cuModuleUnload = [](CUmodule) {
      // By now the driver may give the handle to another function.
      EXPECT_EQ(ContextRegistry::managed()->layouts().find(testing::null_kernel(1)), nullptr);
      testing::change_device_usage(-(4 << 20));
      return CUDA_SUCCESS;
    };
  }
  void TearDown() override {
    BudgetFixture::TearDown();
    testing::install_null_driver(2);
  }
};

TEST_F(ModuleHooksTest, HasTheDeviceLookedAtWhenCodeIsLoadedAndUnloaded) {
  CUmodule module = nullptr;
  ASSERT_EQ(hook::cuModuleLoad(&module, ""), CUDA_SUCCESS);
  wait_for_passthrough(4_MiB);
  ASSERT_EQ(hook::cuModuleUnload(module), CUDA_SUCCESS);
  wait_for_passthrough(Bytes{});
}

TEST_F(ModuleHooksTest, HasTheDeviceLookedAtWhenAKernelIsLaunchedForTheFirstTime) {
  // Not before: what the worker finds taken while nothing goes on is another process's.
  driver().cuFuncGetParamInfo = [](CUfunction, std::size_t, std::size_t*, std::size_t*) {
    testing::change_device_usage(2 << 20);  // for the kernel's code
    return CUDA_ERROR_INVALID_VALUE;
  };
  ASSERT_EQ(launch(testing::null_kernel(1), buffer_, other_), CUDA_SUCCESS);
  wait_for_passthrough(2_MiB);
  testing::change_device_usage(-(2 << 20));
}

TEST_F(ModuleHooksTest, ForgetsLayoutsBeforeTheDriverUnloadsTheirFunctions) {
  ASSERT_EQ(launch(testing::null_kernel(1), buffer_, other_), CUDA_SUCCESS);
  ASSERT_NE(ContextRegistry::managed()->layouts().find(testing::null_kernel(1)), nullptr);
  testing::change_device_usage(4 << 20);
  ASSERT_EQ(hook::cuModuleUnload(nullptr), CUDA_SUCCESS);
}

TEST_F(ModuleHooksTest, KeepsLayoutsOfOtherModules) {
  driver().cuFuncGetModule = [](CUmodule* module, CUfunction) {
    *module = reinterpret_cast<CUmodule>(0x8880);
    return CUDA_SUCCESS;
  };
  driver().cuModuleUnload = [](CUmodule) { return CUDA_SUCCESS; };
  const KernelLayoutCache& layouts = ContextRegistry::managed()->layouts();
  ASSERT_EQ(launch(testing::null_kernel(1), buffer_, other_), CUDA_SUCCESS);
  ASSERT_EQ(hook::cuModuleUnload(reinterpret_cast<CUmodule>(0x9990)), CUDA_SUCCESS);
  EXPECT_NE(layouts.find(testing::null_kernel(1)), nullptr);
  ASSERT_EQ(hook::cuModuleUnload(reinterpret_cast<CUmodule>(0x8880)), CUDA_SUCCESS);
  EXPECT_EQ(layouts.find(testing::null_kernel(1)), nullptr);
}

// As drivers before CUDA 12.5, which do not tell the library of a kernel.
TEST_F(ModuleHooksTest, ALibrarysLayoutsGoWithItWhereTheDriverDoesNotTellTheLibrary) {
  static auto* const library = reinterpret_cast<CUlibrary>(0x7770);
  const CUfunction kernel = testing::null_kernel(1);
  driver().cuKernelGetLibrary = [](CUlibrary*, CUkernel) { return CUDA_ERROR_NOT_SUPPORTED; };
  driver().cuKernelGetParamInfo = [](CUkernel asked, std::size_t index, std::size_t* offset,
                                     std::size_t* size) {
    return driver().cuFuncGetParamInfo(reinterpret_cast<CUfunction>(asked), index, offset, size);
  };
  driver().cuLibraryGetKernel = [](CUkernel* got, CUlibrary, const char*) {
    *got = reinterpret_cast<CUkernel>(testing::null_kernel(1));
    return CUDA_SUCCESS;
  };
  driver().cuModuleUnload = [](CUmodule) { return CUDA_SUCCESS; };
  driver().cuLibraryUnload = [](CUlibrary) { return CUDA_SUCCESS; };
  CUkernel got = nullptr;
  ASSERT_EQ(hook::cuLibraryGetKernel(&got, library, "kernel"), CUDA_SUCCESS);
  ASSERT_EQ(launch(kernel, buffer_, other_), CUDA_SUCCESS);
  const KernelLayoutCache& layouts = ContextRegistry::managed()->layouts();
  ASSERT_NE(layouts.find(kernel), nullptr);
  ASSERT_EQ(hook::cuModuleUnload(reinterpret_cast<CUmodule>(0x9990)), CUDA_SUCCESS);
  EXPECT_NE(layouts.find(kernel), nullptr);
  ASSERT_EQ(hook::cuLibraryUnload(reinterpret_cast<CUlibrary>(0x6660)), CUDA_SUCCESS);
  EXPECT_NE(layouts.find(kernel), nullptr);
  ASSERT_EQ(hook::cuLibraryUnload(library), CUDA_SUCCESS);
  EXPECT_EQ(layouts.find(kernel), nullptr);
}

TEST_F(ModuleHooksTest, KnowsTheKernelsOfALibraryUntilItIsUnloaded) {
  static auto* const library = reinterpret_cast<CUlibrary>(0x7770);
  const auto is_known = [](CUkernel kernel) {
    return KernelHandles::of_process().contains(reinterpret_cast<CUfunction>(kernel));
  };
  driver().cuLibraryGetKernel = [](CUkernel* kernel, CUlibrary, const char* name) {
    *kernel = reinterpret_cast<CUkernel>(0x7780);
    return name == nullptr ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS;
  };
  driver().cuLibraryGetKernelCount = [](unsigned* count, CUlibrary) {
    *count = 1;
    return CUDA_SUCCESS;
  };
  driver().cuLibraryEnumerateKernels = [](CUkernel* kernels, unsigned, CUlibrary) {
    kernels[0] = reinterpret_cast<CUkernel>(0x7790);
    return CUDA_SUCCESS;
  };
  driver().cuLibraryUnload = [](CUlibrary unloaded) {
    if (unloaded != library) return CUDA_SUCCESS;
    EXPECT_FALSE(KernelHandles::of_process().contains(reinterpret_cast<CUfunction>(0x7780)));
    return CUDA_SUCCESS;
  };
  CUkernel kernel = nullptr;
  ASSERT_EQ(hook::cuLibraryGetKernel(&kernel, library, nullptr), CUDA_ERROR_NOT_FOUND);
  EXPECT_FALSE(is_known(kernel));
  ASSERT_EQ(hook::cuLibraryGetKernel(&kernel, library, "gemm"), CUDA_SUCCESS);
  EXPECT_TRUE(is_known(kernel));
  CUkernel listed[2] = {nullptr, reinterpret_cast<CUkernel>(0x7795)};
  ASSERT_EQ(hook::cuLibraryEnumerateKernels(listed, 2, library), CUDA_SUCCESS);
  EXPECT_TRUE(is_known(listed[0]));
  EXPECT_FALSE(is_known(listed[1])) << "the library has one";
  ASSERT_EQ(hook::cuLibraryUnload(reinterpret_cast<CUlibrary>(0x6660)), CUDA_SUCCESS);
  EXPECT_TRUE(is_known(kernel));
  ASSERT_EQ(hook::cuLibraryUnload(library), CUDA_SUCCESS);
  EXPECT_FALSE(is_known(listed[0]));
}

TEST_F(ModuleHooksTest, AnswersWhatTheDriverSays) {
  driver().cuLibraryUnload = [](CUlibrary) { return CUDA_ERROR_INVALID_HANDLE; };
  EXPECT_EQ(hook::cuLibraryUnload(nullptr), CUDA_ERROR_INVALID_HANDLE);
}

}  // namespace
}  // namespace superpipe
