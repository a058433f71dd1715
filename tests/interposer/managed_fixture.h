// A managed context over the null driver, for tests of the hooks.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "interposer/contexts/context_registry.h"
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
    free_device();  // an earlier test may have left something behind
    Configuration configuration;
    configuration.min_buffer = Bytes{kBytes};
    // Those that others on this machine use are not for tests.
    configuration.shared_folder = std::filesystem::temp_directory_path();
    configuration.shares_host_memory = false;
    configure(configuration);
    set_process_configuration(configuration);
    buffer_ = allocate();
    other_ = allocate();
  }
  /// What is configured besides, for a fixture that needs it.
  virtual void configure(Configuration& /*configuration*/) {}
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

  /// Pass-through memory, as far as the managed context knows.
  static Bytes passthrough() {
    return ContextRegistry::managed()->residency().stats().passthrough_bytes;
  }
  /// Returns once it is `size`, which the worker finds out by asking the device.
  static void wait_for_passthrough(Bytes size) {
    while (passthrough() != size) std::this_thread::yield();
  }

  static CUresult launch(CUfunction kernel, CUdeviceptr first, CUdeviceptr second,
                         CUstream stream = nullptr) {
    void* parameters[] = {&first, &second};
    return hook::cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr);
  }

  CUdeviceptr buffer_ = 0;
  CUdeviceptr other_ = 0;
};

/// The same with a budget, within which buffers are evicted for others and for pass-through
/// memory. The worker looks at what the device holds.
class BudgetFixture : public ManagedFixture {
 protected:
  static constexpr Bytes kBudget = 64_MiB;
  static constexpr Bytes kHeadroom = 2_MiB;

  void configure(Configuration& configuration) override {
    configuration.policy = PolicyKind::kNaive;
    configuration.gpu_mem = SizeSpec::of_bytes(kBudget);
    configuration.headroom = SizeSpec::of_bytes(kHeadroom);
  }
};

}  // namespace superpipe::testing
