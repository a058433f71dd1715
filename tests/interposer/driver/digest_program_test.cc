#include "interposer/driver/digest_program.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "interposer/driver/table.h"
#include "residency/transfer/digest_kernel.h"
#include "tests/interposer/null_driver.h"

namespace superpipe {
namespace {

using std::chrono_literals::operator""ms;

int unreturned = 0;  // modules, streams, events, memory and pinned ranges that nobody gave back
int frees = 0;
std::vector<unsigned> grids;

template <typename Handle>
CUresult give(Handle* handle) {
  *handle = reinterpret_cast<Handle>(0x1000);
  ++unreturned;
  return CUDA_SUCCESS;
}

CUresult take_back() {
  --unreturned;
  return CUDA_SUCCESS;
}

// A driver whose kernel writes nothing; tests replace what shall fail.
class DigestProgramTest : public ::testing::Test {
 protected:
  void SetUp() override {
    testing::install_null_driver(5);
    unreturned = frees = 0;
    grids.clear();
    DriverTable& table = driver();
    table.cuModuleLoadData = [](CUmodule* module, const void*) { return give(module); };
    table.cuModuleUnload = [](CUmodule) { return take_back(); };
    table.cuModuleGetFunction = [](CUfunction* function, CUmodule, const char* name) {
      EXPECT_STREQ(name, kDigestKernel);
      *function = testing::null_kernel(1);
      return CUDA_SUCCESS;
    };
    table.cuStreamCreate = [](CUstream* stream, unsigned flags) {
      EXPECT_EQ(flags, CU_STREAM_NON_BLOCKING);
      return give(stream);
    };
    table.cuStreamDestroy_v2 = [](CUstream) { return take_back(); };
    table.cuEventCreate = [](CUevent* event, unsigned) { return give(event); };
    table.cuEventDestroy_v2 = [](CUevent) { return take_back(); };
    table.cuMemHostRegister_v2 = [](void*, std::size_t, unsigned) {
      ++unreturned;
      return CUDA_SUCCESS;
    };
    table.cuMemHostUnregister = [](void*) {
      ++frees;
      return take_back();
    };
    table.cuMemHostGetDevicePointer_v2 = [](CUdeviceptr* address, void* memory, unsigned) {
      *address = reinterpret_cast<CUdeviceptr>(memory);
      return CUDA_SUCCESS;
    };
    table.cuGetErrorName = [](CUresult, const char** name) {
      *name = "CUDA_ERROR_OF_THE_TEST";
      return CUDA_SUCCESS;
    };
    table.cuLaunchKernel = [](CUfunction, unsigned x, unsigned y, unsigned z, unsigned threads,
                              unsigned, unsigned, unsigned shared, CUstream, void** parameters,
                              void**) {
      EXPECT_EQ(y * z, 1U);
      EXPECT_EQ(threads, kDigestThreads);
      EXPECT_EQ(shared, 0U);
      EXPECT_EQ(*static_cast<CUdeviceptr*>(parameters[0]) % kDigestAlignment, 0U);
      grids.push_back(x);
      return CUDA_SUCCESS;
    };
  }
  void TearDown() override { testing::install_null_driver(1); }

  static std::unique_ptr<DigestProgram> create() {
    return DigestProgram::create(draw_digest_key(), 0, 0ms);
  }
};

TEST_F(DigestProgramTest, RefusesAKernelThatComputesAnotherDigest) {
  EXPECT_EQ(create(), nullptr);
  EXPECT_FALSE(grids.empty());
  EXPECT_EQ(unreturned, 0);
  EXPECT_EQ(frees, 1);
}

// To free it would wait for the kernel, for ever perhaps.
TEST_F(DigestProgramTest, LeavesTheMemoryOfAKernelThatDoesNotEnd) {
  driver().cuEventQuery = [](CUevent) { return CUDA_ERROR_NOT_READY; };
  EXPECT_EQ(create(), nullptr);
  EXPECT_EQ(frees, 0);
  EXPECT_GT(unreturned, 0);
}

TEST_F(DigestProgramTest, LeavesTheMemoryOfAKernelWhoseEndCannotBeMarked) {
  driver().cuEventRecord = [](CUevent, CUstream) { return CUDA_ERROR_UNKNOWN; };
  EXPECT_EQ(create(), nullptr);
  EXPECT_EQ(frees, 0);
  EXPECT_GT(unreturned, 0);
}

TEST_F(DigestProgramTest, LoadsTextWhereMachineCodeIsRefused) {
  static std::vector<const void*> images;
  images.clear();
  driver().cuModuleLoadData = [](CUmodule* module, const void* image) {
    images.push_back(image);
    if (images.size() == 1) return CUDA_ERROR_NO_BINARY_FOR_GPU;
    EXPECT_NE(std::string(static_cast<const char*>(image)).find(".version 7.0"), std::string::npos);
    return give(module);
  };
  EXPECT_EQ(create(), nullptr);
  EXPECT_EQ(images.size(), 2U);
  EXPECT_FALSE(grids.empty());
  EXPECT_EQ(unreturned, 0);
}

TEST_F(DigestProgramTest, ReleasesEverythingWhereACallFails) {
  const std::vector<std::pair<const char*, std::function<void()>>> failures = {
      {"load",
       [] {
         driver().cuModuleLoadData = [](CUmodule*, const void*) { return CUDA_ERROR_UNKNOWN; };
       }},
      {"function",
       [] {
         driver().cuModuleGetFunction = [](CUfunction*, CUmodule, const char*) {
           return CUDA_ERROR_NOT_FOUND;
         };
       }},
      {"stream",
       [] { driver().cuStreamCreate = [](CUstream*, unsigned) { return CUDA_ERROR_UNKNOWN; }; }},
      {"event",
       [] { driver().cuEventCreate = [](CUevent*, unsigned) { return CUDA_ERROR_UNKNOWN; }; }},
      {"pin",
       [] {
         driver().cuMemHostRegister_v2 = [](void*, std::size_t, unsigned) {
           return CUDA_ERROR_OUT_OF_MEMORY;
         };
       }},
      {"device pointer",
       [] {
         driver().cuMemHostGetDevicePointer_v2 = [](CUdeviceptr*, void*, unsigned) {
           return CUDA_ERROR_INVALID_VALUE;
         };
       }},
      {"launch",
       [] {
         driver().cuLaunchKernel = [](CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned,
                                      unsigned, unsigned, CUstream, void**,
                                      void**) { return CUDA_ERROR_LAUNCH_FAILED; };
       }},
      {"query", [] { driver().cuEventQuery = [](CUevent) { return CUDA_ERROR_LAUNCH_FAILED; }; }},
  };
  for (const auto& [name, fail] : failures) {
    SetUp();
    fail();
    EXPECT_EQ(create(), nullptr) << name;
    EXPECT_EQ(unreturned, 0) << name;
  }
}

}  // namespace
}  // namespace superpipe
