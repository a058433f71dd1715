// How long kernels, fills and copies on the device take.
#include <algorithm>

#include "tests/hang_limit.h"
#include "tests/simgpu/driver/support/module_fixture.h"

namespace simgpu {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr double kGbps = 0.5;

/// Memory of 0.5 GB/s, launches of 2 ms.
class KernelCostDriver : public DriverTest {
 protected:
  static void SetUpTestSuite() {
    setenv("SIMGPU_DEVICE_GBPS", "0.5", 1);
    setenv("SIMGPU_LAUNCH_US", "2000", 1);
    DriverTest::SetUpTestSuite();
  }
  void SetUp() override {
    DriverTest::SetUp();
    ASSERT_EQ(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    ASSERT_EQ(cuEventCreate(&start_, CU_EVENT_DEFAULT), CUDA_SUCCESS);
    ASSERT_EQ(cuEventCreate(&end_, CU_EVENT_DEFAULT), CUDA_SUCCESS);
  }
  static CUdeviceptr allocate(std::size_t bytes) {
    CUdeviceptr address = 0;
    EXPECT_EQ(cuMemAlloc_v2(&address, bytes), CUDA_SUCCESS);
    return address;
  }
  /// Expects that what `submit` puts on the stream takes `model` milliseconds by events. A busy
  /// machine can only be late: the test waits for a run in time.
  template <typename Submit>
  void expect_time(double model, Submit submit) {
    const superpipe::testing::HangGuard guard;
    float least = 1e9F;
    while (least > model + 0.5 && !guard.is_over()) {
      EXPECT_EQ(cuEventRecord(start_, stream_), CUDA_SUCCESS);
      submit();
      EXPECT_EQ(cuEventRecord(end_, stream_), CUDA_SUCCESS);
      EXPECT_EQ(cuEventSynchronize(end_), CUDA_SUCCESS);
      float milliseconds = 0;
      EXPECT_EQ(cuEventElapsedTime(&milliseconds, start_, end_), CUDA_SUCCESS);
      least = std::min(least, milliseconds);
    }
    EXPECT_NEAR(least, model, 0.5);
  }
  void expect_kernel_time(double model, CUdeviceptr out, unsigned blocks) {
    const CUfunction bounded = function(load(), "_Z7boundedPf");
    expect_time(model, [&] {
      void* parameters[] = {&out};
      EXPECT_EQ(cuLaunchKernel(bounded, blocks, 1, 1, 128, 1, 1, 0, stream_, parameters, nullptr),
                CUDA_SUCCESS);
    });
  }
  static double memory_ms(double bytes) { return bytes / (kGbps * 1e6); }

  CUstream stream_ = nullptr;
  CUevent start_ = nullptr;
  CUevent end_ = nullptr;
};

TEST_F(KernelCostDriver, AKernelTakesWhatItsOperandsTake) {
  const CUdeviceptr large = allocate(32 * kMiB);
  // No less than a launch; from the pointer on; no more than its threads touch.
  expect_kernel_time(2, allocate(4096), 1 << 14);
  expect_kernel_time(memory_ms(32 * kMiB), large, 1 << 14);
  expect_kernel_time(memory_ms(8 * kMiB), large + 24 * kMiB, 1 << 14);
  expect_kernel_time(memory_ms(64 * 128 * 1024), large, 1 << 10);
}

TEST_F(KernelCostDriver, AFillTakesTheMemorysBandwidthAndACopyHalfOfIt) {
  const CUdeviceptr from = allocate(8 * kMiB);
  const CUdeviceptr to = allocate(8 * kMiB);
  expect_time(memory_ms(8 * kMiB),
              [&] { EXPECT_EQ(cuMemsetD8Async(to, 1, 8 * kMiB, stream_), CUDA_SUCCESS); });
  expect_time(2 * memory_ms(8 * kMiB),
              [&] { EXPECT_EQ(cuMemcpyDtoDAsync_v2(to, from, 8 * kMiB, stream_), CUDA_SUCCESS); });
}

/// A kernel's time is given, and so is the share that both directions of the link have at once.
class GivenTimes : public KernelCostDriver {
 protected:
  static void SetUpTestSuite() {
    setenv("SIMGPU_KERNEL_US", "5000", 1);
    setenv("SIMGPU_DUPLEX", "0.5", 1);
    setenv("SIMGPU_COPY_US", "10000", 1);
    setenv("SIMGPU_H2D_GBPS", "0.25", 1);
    setenv("SIMGPU_D2H_GBPS", "0.25", 1);
    KernelCostDriver::SetUpTestSuite();
  }
};

TEST_F(GivenTimes, RuleOverWhatAKernelWouldTake) {
  expect_kernel_time(5, allocate(32 * kMiB), 1 << 14);
}

TEST_F(GivenTimes, OfACopyCountForEachCopyAndForTheOtherDirection) {
  const CUdeviceptr device = allocate(8 * kMiB);
  void* host = nullptr;
  ASSERT_EQ(cuMemAllocHost_v2(&host, 8 * kMiB), CUDA_SUCCESS);
  const double alone = 4 * kMiB / 0.25e6 + 10;
  expect_time(alone, [&] {
    EXPECT_EQ(cuMemcpyHtoDAsync_v2(device, host, 4 * kMiB, stream_), CUDA_SUCCESS);
  });
  CUstream other = nullptr;
  CUevent up = nullptr;
  ASSERT_EQ(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  ASSERT_EQ(cuEventCreate(&up, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
  // One direction at a time.
  expect_time(2 * alone, [&] {
    EXPECT_EQ(cuMemcpyHtoDAsync_v2(device, host, 4 * kMiB, stream_), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamWaitEvent(other, start_, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuMemcpyDtoHAsync_v2(static_cast<char*>(host) + 4 * kMiB, device + 4 * kMiB, 4 * kMiB,
                                   other),
              CUDA_SUCCESS);
    EXPECT_EQ(cuEventRecord(up, other), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamWaitEvent(stream_, up, 0), CUDA_SUCCESS);
  });
}

}  // namespace
}  // namespace simgpu
