// A fixture for tests that run on simgpu's driver in this process.
#pragma once

#include <cuda.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#define EXPECT_SUCCESS(call) EXPECT_EQ((call), CUDA_SUCCESS)
#define ASSERT_SUCCESS(call) ASSERT_EQ((call), CUDA_SUCCESS)

namespace simgpu_test {

inline constexpr std::size_t kMiB = std::size_t{1} << 20;
inline constexpr std::size_t kGranule = 2 * kMiB;
/// The capacity of each of the two devices, and what a context takes of it.
inline constexpr std::size_t kCapacity = 256 * kMiB;
inline constexpr std::size_t kContextBytes = 2 * kMiB;
/// Links slow enough that a loaded machine keeps up with them.
inline constexpr double kLinkGbps = 0.25;

/// Two devices of 256 MiB; the primary context of device 0 is current.
class DriverTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    setenv("SIMGPU_MEMORY", "256M", 1);
    setenv("SIMGPU_DEVICES", "2", 1);
    setenv("SIMGPU_CONTEXT_BYTES", "2M", 1);
    setenv("SIMGPU_H2D_GBPS", "0.25", 1);
    setenv("SIMGPU_D2H_GBPS", "0.25", 1);
    setenv("SIMGPU_D2D_GBPS", "0.5", 1);
  }
  void SetUp() override {
    ASSERT_SUCCESS(cuInit(0));
    ASSERT_SUCCESS(cuDevicePrimaryCtxRetain(&context_, 0));
    ASSERT_SUCCESS(cuCtxSetCurrent(context_));
    // What earlier tests of this process left mapped does not count.
    free_at_start_ = available();
  }
  void TearDown() override {
    cuCtxSetCurrent(nullptr);
    EXPECT_SUCCESS(cuDevicePrimaryCtxReset(0));
    EXPECT_SUCCESS(cuDevicePrimaryCtxReset(1));
  }

  /// Bytes of device memory that are free now.
  static std::size_t available() {
    std::size_t free = 0;
    EXPECT_SUCCESS(cuMemGetInfo(&free, nullptr));
    return free;
  }
  /// Bytes of device memory that the test has in use now.
  [[nodiscard]] std::size_t used() const { return free_at_start_ - available(); }
  static CUdeviceptr allocate(std::size_t size) {
    CUdeviceptr address = 0;
    EXPECT_SUCCESS(cuMemAlloc(&address, size));
    return address;
  }
  /// Pinned host memory, freed with the context.
  static unsigned char* allocate_host(std::size_t size) {
    void* memory = nullptr;
    EXPECT_SUCCESS(cuMemAllocHost(&memory, size));
    return static_cast<unsigned char*>(memory);
  }
  static CUstream make_stream() {
    CUstream stream = nullptr;
    EXPECT_SUCCESS(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    return stream;
  }
  static CUevent make_event(unsigned flags = CU_EVENT_DEFAULT) {
    CUevent event = nullptr;
    EXPECT_SUCCESS(cuEventCreate(&event, flags));
    return event;
  }
  static CUmemAllocationProp properties(int device = 0) {
    CUmemAllocationProp prop{};
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    prop.location.id = device;
    return prop;
  }
  static CUmemGenericAllocationHandle create(std::size_t size) {
    CUmemGenericAllocationHandle handle = 0;
    const CUmemAllocationProp prop = properties();
    EXPECT_SUCCESS(cuMemCreate(&handle, size, &prop, 0));
    return handle;
  }
  static CUresult set_access(CUdeviceptr address, std::size_t size, CUmemAccess_flags flags) {
    CUmemAccessDesc access{};
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.location.id = 0;
    access.flags = flags;
    return cuMemSetAccess(address, size, &access, 1);
  }
  /// A reservation with one handle mapped, readable and writable, at its start.
  static CUdeviceptr reserve_and_map(std::size_t reserved, CUmemGenericAllocationHandle handle,
                                     std::size_t size) {
    CUdeviceptr address = 0;
    EXPECT_SUCCESS(cuMemAddressReserve(&address, reserved, 0, 0, 0));
    EXPECT_SUCCESS(cuMemMap(address, size, 0, handle, 0));
    EXPECT_SUCCESS(set_access(address, size, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    return address;
  }
  static std::vector<unsigned char> read(CUdeviceptr address, std::size_t size) {
    std::vector<unsigned char> bytes(size, 0xEE);
    EXPECT_SUCCESS(cuMemcpyDtoH(bytes.data(), address, size));
    return bytes;
  }
  static void fill(CUdeviceptr address, unsigned char value, std::size_t size) {
    EXPECT_SUCCESS(cuMemsetD8(address, value, size));
    EXPECT_SUCCESS(cuCtxSynchronize());
  }

  CUcontext context_ = nullptr;
  std::size_t free_at_start_ = 0;
};

}  // namespace simgpu_test
