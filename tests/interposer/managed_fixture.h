// A managed context over the null driver, for tests of the hooks.
#pragma once

#include <gtest/gtest.h>

#include "interposer/context_registry.h"
#include "interposer/driver/table.h"
#include "interposer/generated/hooks.h"
#include "interposer/process_configuration.h"
#include "tests/interposer/null_driver.h"

namespace superpipe::testing {

/// Kernels take two pointers; buffers of 4 KiB and more are managed; policy resident.
class ManagedFixture : public ::testing::Test {
 protected:
  static constexpr std::size_t kBytes = 4096;

  void SetUp() override {
    install_null_driver(2);
    Configuration configuration;
    configuration.min_buffer = Bytes{kBytes};
    set_process_configuration(configuration);
    buffer_ = allocate();
    other_ = allocate();
  }
  /// As a program does at its end: the driver destroys the context, which is closed before that.
  void TearDown() override {
    CUcontext context = nullptr;
    driver().cuCtxGetCurrent(&context);
    ContextRegistry::of_process().on_destroying(context);
  }

  static CUdeviceptr allocate(std::size_t size = kBytes) {
    CUdeviceptr address = 0;
    EXPECT_EQ(hook::cuMemAlloc_v2(&address, size), CUDA_SUCCESS);
    return address;
  }

  static CUresult launch(CUfunction kernel, CUdeviceptr first, CUdeviceptr second,
                         CUstream stream = nullptr) {
    void* parameters[] = {&first, &second};
    return hook::cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr);
  }

  CUdeviceptr buffer_ = 0;
  CUdeviceptr other_ = 0;
};

}  // namespace superpipe::testing
