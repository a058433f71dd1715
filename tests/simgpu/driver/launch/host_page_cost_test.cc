// How long what uses pages on the host takes, and which bytes it counts.
#include <algorithm>

#include "tests/hang_limit.h"
#include "tests/simgpu/driver/support/module_fixture.h"

namespace simgpu {
namespace {

constexpr std::size_t kPage = std::size_t{8} << 20;
constexpr double kDown = 0.5;
constexpr double kUp = 0.25;

/// A link of 0.5 GB/s down and 0.25 up, device memory of 2 GB/s, launches of 1 ms.
class HostPageCost : public DriverTest {
 protected:
  static void SetUpTestSuite() {
    setenv("SIMGPU_DEVICE_GBPS", "2", 1);
    setenv("SIMGPU_H2D_GBPS", "0.5", 1);
    setenv("SIMGPU_D2H_GBPS", "0.25", 1);
    setenv("SIMGPU_LAUNCH_US", "1000", 1);
    DriverTest::SetUpTestSuite();
  }
  void SetUp() override {
    DriverTest::SetUp();
    ASSERT_EQ(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    ASSERT_EQ(cuEventCreate(&start_, CU_EVENT_DEFAULT), CUDA_SUCCESS);
    ASSERT_EQ(cuEventCreate(&end_, CU_EVENT_DEFAULT), CUDA_SUCCESS);
  }
  static CUdeviceptr mapped(CUmemLocationType place) {
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = place;
    CUmemGenericAllocationHandle page = 0;
    CUdeviceptr address = 0;
    CUmemAccessDesc access{};
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    EXPECT_EQ(cuMemCreate(&page, kPage, &properties, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuMemAddressReserve(&address, kPage, 0, 0, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuMemMap(address, kPage, 0, page, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuMemSetAccess(address, kPage, &access, 1), CUDA_SUCCESS);
    return address;
  }
  static CUdeviceptr on_host() { return mapped(CU_MEM_LOCATION_TYPE_HOST_NUMA); }
  static CUdeviceptr on_device() { return mapped(CU_MEM_LOCATION_TYPE_DEVICE); }
  /// Milliseconds that the link takes for a page.
  static double link_ms(double gbps) { return kPage / (gbps * 1e6); }
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
  /// Of a kernel that reads and writes `address` by so many threads.
  void expect_kernel_time(double model, CUdeviceptr address, unsigned threads) {
    const CUfunction bounded = function(load(), "_Z7boundedPf");
    expect_time(model, [&] {
      void* parameters[] = {&address};
      EXPECT_EQ(
          cuLaunchKernel(bounded, threads / 128, 1, 1, 128, 1, 1, 0, stream_, parameters, nullptr),
          CUDA_SUCCESS);
    });
  }
  void expect_copy_time(double model, CUdeviceptr to, CUdeviceptr from) {
    expect_time(model,
                [&] { EXPECT_EQ(cuMemcpyDtoDAsync_v2(to, from, kPage, stream_), CUDA_SUCCESS); });
  }

  CUstream stream_ = nullptr;
  CUevent start_ = nullptr;
  CUevent end_ = nullptr;
};

TEST_F(HostPageCost, AKernelTakesWhatTheLinkTakesForItsBytes) {
  const CUdeviceptr page = on_host();
  const double written = link_ms(kUp) * 55.5 / 52.5;
  expect_kernel_time(written, page, kPage / 64);
  expect_kernel_time(written / 2, page, kPage / 128);
  expect_kernel_time(1, page, 128);
}

TEST_F(HostPageCost, AKernelOnTheDeviceTakesWhatItAlwaysDid) {
  (void)on_host();
  expect_kernel_time(link_ms(2), on_device(), kPage / 64);
}

TEST_F(HostPageCost, AKernelWaitsForACopyThatTheLinkCarriesAlready) {
  const CUdeviceptr page = on_host();
  CUstream other = nullptr;
  CUevent copied = nullptr;
  void* host = nullptr;
  ASSERT_EQ(cuMemAllocHost_v2(&host, kPage), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  ASSERT_EQ(cuEventCreate(&copied, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
  const CUdeviceptr source = on_device();
  const CUfunction bounded = function(load(), "_Z7boundedPf");
  // The kernel comes to the link behind the copy, or the copy behind the kernel.
  expect_time(link_ms(kUp) * (1 + 55.5 / 52.5), [&] {
    EXPECT_EQ(cuStreamWaitEvent(other, start_, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuMemcpyDtoHAsync_v2(host, source, kPage, other), CUDA_SUCCESS);
    EXPECT_EQ(cuEventRecord(copied, other), CUDA_SUCCESS);
    CUdeviceptr address = page;
    void* parameters[] = {&address};
    EXPECT_EQ(
        cuLaunchKernel(bounded, kPage / 64 / 128, 1, 1, 128, 1, 1, 0, stream_, parameters, nullptr),
        CUDA_SUCCESS);
    EXPECT_EQ(cuStreamWaitEvent(stream_, copied, 0), CUDA_SUCCESS);
  });
}

TEST_F(HostPageCost, ACopyTakesWhatItTakesFromPinnedMemory) {
  const CUdeviceptr host = on_host();
  const CUdeviceptr device = on_device();
  expect_copy_time(link_ms(kDown), device, host);
  expect_copy_time(link_ms(kUp), host, device);
  expect_copy_time(2 * link_ms(2), on_device(), device);
}

TEST_F(HostPageCost, AFillTakesTheLink) {
  const CUdeviceptr host = on_host();
  expect_time(link_ms(kUp) * 55.5 / 52.5,
              [&] { EXPECT_EQ(cuMemsetD8Async(host, 1, kPage, stream_), CUDA_SUCCESS); });
}

/// A kernel reads a quarter of its bytes, sixteen times.
class SparseReading : public HostPageCost {
 protected:
  static void SetUpTestSuite() {
    setenv("SIMGPU_HOST_SHARE", "0.25", 1);
    setenv("SIMGPU_HOST_REREAD", "16", 1);
    HostPageCost::SetUpTestSuite();
  }
};

TEST_F(SparseReading, CountsForReadsAlone) {
  expect_kernel_time(4 * link_ms(kDown) * 55.5 / 51.2, on_host(), kPage / 64);
}

}  // namespace
}  // namespace simgpu
