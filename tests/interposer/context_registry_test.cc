#include "interposer/contexts/context_registry.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tests/interposer/managed_fixture.h"

namespace superpipe {
namespace {

class ContextRegistryTest : public testing::ManagedFixture {
 protected:
  void TearDown() override {
    testing::install_null_driver(2);
    ManagedFixture::TearDown();
  }

  static ContextRegistry& registry() { return ContextRegistry::of_process(); }
  static CUcontext context() {
    CUcontext current = nullptr;
    driver().cuCtxGetCurrent(&current);
    return current;
  }
  static void make_another_context_current() {
    driver().cuCtxGetCurrent = [](CUcontext* current) {
      *current = reinterpret_cast<CUcontext>(0x20);
      return CUDA_SUCCESS;
    };
  }
  static std::uint64_t launches() {
    const auto figures = registry().figures();
    return figures ? figures->residency.launches : 0;
  }
};

TEST_F(ContextRegistryTest, GivesTheManagedContextToItsOwnThreadsOnly) {
  EXPECT_EQ(registry().for_allocation(), ContextRegistry::managed());
  make_another_context_current();
  EXPECT_EQ(registry().for_allocation(), nullptr);
}

TEST_F(ContextRegistryTest, GivesItToAllContextsOfItsDeviceForWhatTakesDeviceMemory) {
  make_another_context_current();
  EXPECT_EQ(registry().for_current_device(), ContextRegistry::managed());
  EXPECT_EQ(registry().if_on_current_device(), ContextRegistry::managed());
  driver().cuCtxGetDevice = [](CUdevice* device) {
    *device = 1;
    return CUDA_SUCCESS;
  };
  EXPECT_EQ(registry().for_current_device(), nullptr);
  EXPECT_EQ(registry().if_on_current_device(), nullptr);
}

TEST_F(ContextRegistryTest, SetsUpNothingWhereOnlyAManagedContextIsAskedFor) {
  registry().on_destroying(context());
  EXPECT_EQ(registry().if_on_current_device(), nullptr);
  EXPECT_EQ(ContextRegistry::managed(), nullptr);
}

TEST_F(ContextRegistryTest, SetsUpNothingWithoutACurrentContext) {
  registry().on_destroying(context());
  driver().cuCtxGetCurrent = [](CUcontext* current) {
    *current = nullptr;
    return CUDA_SUCCESS;
  };
  EXPECT_EQ(registry().for_allocation(), nullptr);
  testing::install_null_driver(2);
  EXPECT_NE(registry().for_allocation(), nullptr) << "it tries again";
}

TEST_F(ContextRegistryTest, ClosesTheManagedContextAndNoOther) {
  registry().on_destroying(reinterpret_cast<CUcontext>(0x20));
  EXPECT_NE(ContextRegistry::managed(), nullptr);
  registry().on_primary_destroying(0);  // the managed context is not the primary one
  EXPECT_NE(ContextRegistry::managed(), nullptr);
  registry().on_destroying(context());
  EXPECT_EQ(ContextRegistry::managed(), nullptr);
}

TEST_F(ContextRegistryTest, ClosesAPrimaryContextWithItsLastReferenceOnly) {
  driver().cuDevicePrimaryCtxGetState = [](CUdevice, unsigned* flags, int* active) {
    *flags = 0;
    *active = 1;
    return CUDA_SUCCESS;
  };
  driver().cuDevicePrimaryCtxRetain = [](CUcontext* primary, CUdevice) {
    return driver().cuCtxGetCurrent(primary);
  };
  driver().cuDevicePrimaryCtxRelease_v2 = [](CUdevice) { return CUDA_SUCCESS; };
  registry().on_destroying(context());  // which the driver refuses
  EXPECT_NE(ContextRegistry::managed(), nullptr);
  registry().on_primary_destroying(1);
  EXPECT_NE(ContextRegistry::managed(), nullptr);
  registry().on_primary_destroying(0);
  EXPECT_EQ(ContextRegistry::managed(), nullptr);
}

// Handles of its functions may come again for others; some may be of the managed context's device.
TEST_F(ContextRegistryTest, ForgetsTheLayoutsOfKernelsWithAnyContextThatGoes) {
  const CUfunction kernel = testing::null_kernel(1);
  const KernelLayoutCache& layouts = ContextRegistry::managed()->layouts();
  ASSERT_EQ(launch(kernel, buffer_, other_), CUDA_SUCCESS);
  ASSERT_NE(layouts.find(kernel), nullptr);
  registry().on_destroying(reinterpret_cast<CUcontext>(0x20));
  EXPECT_EQ(layouts.find(kernel), nullptr);
  ASSERT_EQ(launch(kernel, buffer_, other_), CUDA_SUCCESS);
  ASSERT_NE(layouts.find(kernel), nullptr);
  registry().on_primary_destroying(1);
  EXPECT_EQ(layouts.find(kernel), nullptr);
}

TEST_F(ContextRegistryTest, AddsUpWhatHappenedInContextsOneAfterAnother) {
  const std::uint64_t before = launches();
  ASSERT_EQ(launch(testing::null_kernel(1), buffer_, other_), CUDA_SUCCESS);
  registry().on_destroying(context());
  EXPECT_EQ(launches(), before + 1);
  const CUdeviceptr fresh = allocate();
  ASSERT_EQ(launch(testing::null_kernel(1), fresh, 0), CUDA_SUCCESS);
  EXPECT_EQ(launches(), before + 2);
}

// SUPERPIPE_PIN takes the numbers that a fault report of an earlier run gave.
TEST_F(ContextRegistryTest, CountsTheBuffersOfContextsOneAfterAnother) {
  const auto number_of = [](CUdeviceptr address) {
    const auto near = ContextRegistry::managed()->residency().near(address);
    return near ? near->number : 0;
  };
  const std::uint64_t last = number_of(allocate());
  ASSERT_GT(last, 0U);
  registry().on_destroying(context());
  EXPECT_EQ(number_of(allocate()), last + 1);
}

TEST_F(ContextRegistryTest, AThreadThatExitsMayEndProgressWhileAnotherDestroysTheContext) {
  ManagedContext* const managed = ContextRegistry::managed();
  ASSERT_NE(managed, nullptr);
  std::atomic<bool> begun{false};
  std::atomic<bool> destroyed{false};
  std::thread exiting([&] {
    do {
      managed->end_progress();
      begun = true;
    } while (!destroyed);
  });
  while (!begun) std::this_thread::yield();
  registry().on_destroying(context());
  destroyed = true;
  exiting.join();
  EXPECT_EQ(ContextRegistry::managed(), nullptr);
}

TEST_F(ContextRegistryTest, CallsNoDriverWhenItIsAbandoned) {
  const auto refuse = [](CUcontext) {
    ADD_FAILURE() << "the driver was called";
    return CUDA_ERROR_DEINITIALIZED;
  };
  driver().cuCtxPushCurrent_v2 = refuse;
  registry().abandon();
  EXPECT_EQ(ContextRegistry::managed(), nullptr);
}

}  // namespace
}  // namespace superpipe
