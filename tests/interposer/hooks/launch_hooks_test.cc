#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "interposer/driver/hook_scope.h"
#include "interposer/driver/streams.h"
#include "tests/interposer/managed_fixture.h"
#include "tests/temporary_folder.h"

namespace superpipe {
namespace {

class LaunchHooksTest : public testing::ManagedFixture {
 protected:
  static ResidencyStats stats() { return ContextRegistry::managed()->residency().stats(); }
};

TEST_F(LaunchHooksTest, AnnouncesEveryBufferOfTheLaunch) {
  EXPECT_EQ(launch(testing::null_kernel(1), buffer_, other_ + 64), CUDA_SUCCESS);
  EXPECT_EQ(stats().accesses, 2U);
  EXPECT_EQ(testing::null_driver_launches(), 1U);
}

TEST_F(LaunchHooksTest, ReadsTheParametersAtEveryLaunch) {
  launch(testing::null_kernel(1), 0, 0);
  EXPECT_EQ(stats().accesses, 0U);
  launch(testing::null_kernel(1), buffer_, 0);
  EXPECT_EQ(stats().accesses, 1U);
}

TEST_F(LaunchHooksTest, ReadsAnArgumentBuffer) {
  CUdeviceptr packed[] = {buffer_, other_};
  std::size_t size = sizeof packed;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                   CU_LAUNCH_PARAM_END};
  EXPECT_EQ(
      hook::cuLaunchKernel(testing::null_kernel(1), 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, extra),
      CUDA_SUCCESS);
  EXPECT_EQ(stats().accesses, 2U);
}

TEST_F(LaunchHooksTest, RecordsNothingOnACapturingStream) {
  auto* const stream = reinterpret_cast<CUstream>(0x5550);
  ASSERT_EQ(hook::cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  testing::set_captured_stream(stream);
  EXPECT_FALSE(ContextRegistry::managed()->can_order(stream_handle(stream, false)));
  EXPECT_EQ(launch(testing::null_kernel(1), buffer_, other_, stream), CUDA_SUCCESS);
  EXPECT_EQ(testing::events_recorded_on(stream), 0U);
  EXPECT_EQ(testing::null_driver_launches(), 1U);
  testing::set_captured_stream(nullptr);
  CUgraph graph = nullptr;
  ASSERT_EQ(hook::cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
  EXPECT_TRUE(ContextRegistry::managed()->can_order(stream_handle(stream, false)));
}

TEST_F(LaunchHooksTest, AsksForTheLayoutAgainAfterAnUnload) {
  launch(testing::null_kernel(1), buffer_, other_);
  EXPECT_NE(ContextRegistry::managed()->layouts().find(testing::null_kernel(1)), nullptr);
  hook::cuModuleUnload(nullptr);
  EXPECT_EQ(ContextRegistry::managed()->layouts().find(testing::null_kernel(1)), nullptr);
}

TEST_F(LaunchHooksTest, LeavesUnknownFunctionsToTheDriver) {
  driver().cuFuncGetParamInfo = [](CUfunction, std::size_t, std::size_t*, std::size_t*) {
    return CUDA_ERROR_INVALID_HANDLE;
  };
  driver().cuKernelGetParamInfo = [](CUkernel, std::size_t, std::size_t*, std::size_t*) {
    return CUDA_ERROR_INVALID_HANDLE;
  };
  driver().cuLaunchKernel = [](CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned,
                               unsigned, unsigned, CUstream, void**,
                               void**) { return CUDA_ERROR_INVALID_HANDLE; };
  EXPECT_EQ(launch(testing::null_kernel(9), buffer_, 0), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(LaunchHooksTest, EndsTheUseOfALaunchThatTheDriverRefused) {
  driver().cuLaunchKernel = [](CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned,
                               unsigned, unsigned, CUstream, void**,
                               void**) { return CUDA_ERROR_INVALID_VALUE; };
  EXPECT_EQ(launch(testing::null_kernel(1), buffer_, 0), CUDA_ERROR_INVALID_VALUE);
  // A buffer that were still in use could not be freed and its address not found free again.
  EXPECT_EQ(hook::cuMemFree_v2(buffer_), CUDA_SUCCESS);
  EXPECT_EQ(hook::cuMemFree_v2(buffer_), CUDA_ERROR_INVALID_VALUE);
}

class WaitingLaunchTest : public testing::BudgetFixture {
 protected:
  static constexpr std::size_t kLarge = 40 << 20;  // one fits the budget, and not two

  /// So many launches that one of them is sampled. @return the longest overhead of all so far.
  static double overhead_of(CUdeviceptr first, CUdeviceptr second) {
    for (unsigned i = 0; i < LaunchOverheadMeter::kOneIn; ++i) {
      EXPECT_EQ(launch(testing::null_kernel(1), i % 2 == 0 ? first : second, 0), CUDA_SUCCESS);
    }
    return ContextRegistry::managed()->overhead().quantile(1.0);
  }
};

TEST_F(WaitingLaunchTest, TheirWaitsAreNoOverhead) {
  const CUdeviceptr first = allocate(kLarge);
  const CUdeviceptr second = allocate(kLarge);
  EXPECT_EQ(overhead_of(first, second), 0);
  EXPECT_GT(overhead_of(first, first), 0);
}

TEST(HookScope, PassesThroughWhenNestedOrDisabled) {
  hooks_disabled = false;
  {
    const HookScope outer;
    EXPECT_FALSE(outer.passes_through());
    const HookScope inner;
    EXPECT_TRUE(inner.passes_through());
  }
  EXPECT_FALSE(HookScope().passes_through());
  hooks_disabled = true;
  EXPECT_TRUE(HookScope().passes_through());
}

/// A concatenation of PyTorch's, which names one input for each row of the grid.
class ConcatenationTest : public LaunchHooksTest {
 protected:
  void SetUp() override {
    LaunchHooksTest::SetUp();
    // A PyTorch whose structs are known.
    std::filesystem::create_directory(folder_ / "lib");
    std::filesystem::copy_file(FAKE_INTERPRETER, folder_ / "lib" / "libtorch_cuda.so");
    std::ofstream(folder_ / "version.py") << "__version__ = '2.11.0+cu130'\n";
    pytorch_ = ::dlopen((folder_ / "lib" / "libtorch_cuda.so").c_str(), RTLD_NOW);
    ASSERT_NE(pytorch_, nullptr) << ::dlerror();
    driver().cuFuncGetName = [](const char** name, CUfunction) {
      *name =
          "_ZN2at6native40_GLOBAL__N__0f1a8107_8_Shape_cu_49f7391c30CatArrayBatchedCopy_"
          "vectorizedINS1_10OpaqueTypeILj4EEEjLi3ELi128ELi1ELi16ELi4EEEvPcNS1_"
          "25CatArrInputTensorMetadataIT_T0_XT2_EXT3_EEENS1_16TensorSizeStrideIS8_Lj4EEEiS8_";
      return CUDA_SUCCESS;
    };
    driver().cuFuncGetParamInfo = [](CUfunction, std::size_t index, std::size_t* offset,
                                     std::size_t* size) {
      constexpr std::size_t kSizes[] = {8, 2720, 32, 4, 4};
      if (index >= std::size(kSizes)) return CUDA_ERROR_INVALID_VALUE;
      *offset = 0;
      *size = kSizes[index];
      return CUDA_SUCCESS;
    };
    driver().cuLaunchKernelEx = [](const CUlaunchConfig*, CUfunction, void**, void**) {
      return CUDA_SUCCESS;
    };
    driver().cuLaunchKernelEx_ptsz = driver().cuLaunchKernelEx;
    driver().cuLaunchKernel_ptsz = driver().cuLaunchKernel;
    driver().cuLaunchCooperativeKernel = [](CUfunction, unsigned, unsigned, unsigned, unsigned,
                                            unsigned, unsigned, unsigned, CUstream,
                                            void**) { return CUDA_SUCCESS; };
    driver().cuLaunchCooperativeKernel_ptsz = driver().cuLaunchCooperativeKernel;
    for (CUdeviceptr& input : inputs_) input = allocate();
  }
  void TearDown() override {
    LaunchHooksTest::TearDown();
    if (pytorch_ != nullptr) ::dlclose(pytorch_);
    std::filesystem::remove_all(folder_);
  }

  /// How many buffers the launch that `call` makes names.
  template <typename Call>
  std::uint64_t named_by(const Call& call) {
    const std::uint64_t before = stats().accesses;
    EXPECT_EQ(call(parameters_), CUDA_SUCCESS);
    return stats().accesses - before;
  }

 private:
  const std::filesystem::path folder_ = make_temporary_folder("concatenation");
  void* pytorch_ = nullptr;
  CUdeviceptr inputs_[2720 / 8] = {};
  std::uint64_t other_words_[4] = {};
  void* parameters_[5] = {&buffer_, inputs_, other_words_, other_words_, other_words_};
};

TEST_F(ConcatenationTest, NamesAsManyInputsAsTheGridOfEachKindOfLaunchHasRows) {
  const CUfunction kernel = testing::null_kernel(7);
  EXPECT_EQ(named_by([&](void** parameters) {
              return hook::cuLaunchKernel(kernel, 9, 3, 1, 1, 1, 1, 0, nullptr, parameters,
                                          nullptr);
            }),
            1U + 3U);
  EXPECT_EQ(named_by([&](void** parameters) {
              return hook::cuLaunchKernel_ptsz(kernel, 9, 4, 1, 1, 1, 1, 0, nullptr, parameters,
                                               nullptr);
            }),
            1U + 4U);
  CUlaunchConfig config{};
  config.gridDimX = 9;
  config.gridDimY = 5;
  EXPECT_EQ(named_by([&](void** parameters) {
              return hook::cuLaunchKernelEx(&config, kernel, parameters, nullptr);
            }),
            1U + 5U);
  config.gridDimY = 6;
  EXPECT_EQ(named_by([&](void** parameters) {
              return hook::cuLaunchKernelEx_ptsz(&config, kernel, parameters, nullptr);
            }),
            1U + 6U);
  EXPECT_EQ(named_by([&](void** parameters) {
              return hook::cuLaunchCooperativeKernel(kernel, 9, 7, 1, 1, 1, 1, 0, nullptr,
                                                     parameters);
            }),
            1U + 7U);
  EXPECT_EQ(named_by([&](void** parameters) {
              return hook::cuLaunchCooperativeKernel_ptsz(kernel, 9, 8, 1, 1, 1, 1, 0, nullptr,
                                                          parameters);
            }),
            1U + 8U);
}

}  // namespace
}  // namespace superpipe
