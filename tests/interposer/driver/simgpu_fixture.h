// DriverDeviceMemory over simgpu, in the process of the test.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>

#include "interposer/driver/driver_device_memory.h"
#include "interposer/driver/table.h"

namespace superpipe::testing {

/// A context of simgpu, that of the test, and what is over it. Device memory has 0.5 GB/s.
class SimgpuFixture : public ::testing::Test {
 protected:
  /// The first call of the driver loads it: what it is to find has to be there before.
  static void SetUpTestSuite() {
    setenv("SUPERPIPE_DRIVER", SIMGPU_DRIVER, 1);
    setenv("SIMGPU_DEVICE_GBPS", "0.5", 1);
    ASSERT_EQ(driver().cuInit(0), CUDA_SUCCESS);
  }
  void SetUp() override {
    ASSERT_EQ(driver().cuCtxCreate_v2(&context_, 0, 0), CUDA_SUCCESS);
    memory_ = std::make_unique<DriverDeviceMemory>(context_, 0);
  }
  void TearDown() override {
    memory_.reset();
    EXPECT_EQ(driver().cuCtxDestroy_v2(context_), CUDA_SUCCESS);
  }

  static Bytes free_bytes() {
    std::size_t free = 0;
    std::size_t total = 0;
    EXPECT_EQ(driver().cuMemGetInfo_v2(&free, &total), CUDA_SUCCESS);
    return Bytes{free};
  }

  CUcontext context_ = nullptr;
  std::unique_ptr<DriverDeviceMemory> memory_;
};

}  // namespace superpipe::testing
