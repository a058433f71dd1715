// An initialised driver with the test plugin, and a context of its own for each test.
#pragma once

#ifndef __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL
#endif
#include <cuda.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "tests/simgpu/driver/support/test_images.h"

namespace simgpu {

/// Initialises the driver once; a context per test, current, destroyed afterwards.
class DriverTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    const std::string plugin = std::string(SIMGPU_TEST_PLUGINS) + "/simgpu_test_plugin.so";
    setenv("SIMGPU_KERNELS", plugin.c_str(), 1);
    ASSERT_EQ(cuInit(0), CUDA_SUCCESS);
  }

  void SetUp() override { ASSERT_EQ(cuCtxCreate_v2(&context_, 0, 0), CUDA_SUCCESS); }
  void TearDown() override { EXPECT_EQ(cuCtxDestroy_v2(context_), CUDA_SUCCESS); }

  /// A module of kernels.cu, in the current context.
  static CUmodule load(const std::string& image = "kernels.fatbin") {
    const std::vector<std::byte> bytes = read_test_image(image);
    CUmodule module = nullptr;
    EXPECT_EQ(cuModuleLoadData(&module, bytes.data()), CUDA_SUCCESS) << image;
    return module;
  }

  static CUfunction function(CUmodule module, const char* name) {
    CUfunction found = nullptr;
    EXPECT_EQ(cuModuleGetFunction(&found, module, name), CUDA_SUCCESS) << name;
    return found;
  }

  /// Device memory with `values`; freed with the context.
  template <typename T>
  static CUdeviceptr device(const std::vector<T>& values) {
    CUdeviceptr address = 0;
    EXPECT_EQ(cuMemAlloc_v2(&address, values.size() * sizeof(T)), CUDA_SUCCESS);
    EXPECT_EQ(cuMemcpyHtoD_v2(address, values.data(), values.size() * sizeof(T)), CUDA_SUCCESS);
    return address;
  }

  template <typename T>
  static std::vector<T> host(CUdeviceptr address, std::size_t count) {
    std::vector<T> values(count);
    EXPECT_EQ(cuMemcpyDtoH_v2(values.data(), address, count * sizeof(T)), CUDA_SUCCESS);
    return values;
  }

  /// Launches with one block of `threads`, on the null stream.
  static CUresult launch(CUfunction function, std::vector<void*> parameters, unsigned threads = 1) {
    return cuLaunchKernel(function, 1, 1, 1, threads, 1, 1, 0, nullptr, parameters.data(), nullptr);
  }

  static std::size_t free_bytes() {
    std::size_t free = 0;
    std::size_t total = 0;
    EXPECT_EQ(cuMemGetInfo_v2(&free, &total), CUDA_SUCCESS);
    return free;
  }

  CUcontext context_ = nullptr;
};

}  // namespace simgpu
