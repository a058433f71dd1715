#include <cstring>

#include "tests/simgpu/driver/support/driver_fixture.h"

namespace {

using simgpu_test::kCapacity;
using Device = simgpu_test::DriverTest;

int attribute(CUdevice_attribute name) {
  int value = -1;
  EXPECT_SUCCESS(cuDeviceGetAttribute(&value, name, 0));
  return value;
}

TEST_F(Device, IsAnH200LikeDevice) {
  int count = 0;
  EXPECT_SUCCESS(cuDeviceGetCount(&count));
  EXPECT_EQ(count, 2);
  std::size_t total = 0;
  EXPECT_SUCCESS(cuDeviceTotalMem(&total, 0));
  EXPECT_EQ(total, kCapacity);
  EXPECT_EQ(attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR), 9);
  EXPECT_EQ(attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT), 132);
  EXPECT_EQ(attribute(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED), 1);
  EXPECT_EQ(attribute(CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED), 1);
  EXPECT_EQ(attribute(CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED), 1);
  EXPECT_EQ(attribute(CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID), 0);
  int version = 0;
  EXPECT_SUCCESS(cuDriverGetVersion(&version));
  EXPECT_EQ(version, 13000);
}

TEST_F(Device, RefusesOrdinalsAndAttributesThatDoNotExist) {
  CUdevice device = 0;
  int value = 0;
  EXPECT_EQ(cuDeviceGet(&device, 2), CUDA_ERROR_INVALID_DEVICE);
  EXPECT_EQ(cuDeviceGet(&device, -1), CUDA_ERROR_INVALID_DEVICE);
  EXPECT_EQ(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 2),
            CUDA_ERROR_INVALID_DEVICE);
  EXPECT_EQ(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MAX, 0), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Device, TellsWhatItsMemoryDoesAsDevicesDo) {
  const double clock = 1000.0 * attribute(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE);
  const double width = attribute(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH) / 8.0;
  EXPECT_NEAR(2 * clock * width, 100e9, 0.01e9);  // the default
}

TEST_F(Device, UuidsAndBusIdsDiffer) {
  CUuuid first{};
  CUuuid second{};
  EXPECT_SUCCESS(cuDeviceGetUuid(&first, 0));
  EXPECT_SUCCESS(cuDeviceGetUuid(&second, 1));
  EXPECT_NE(std::memcmp(first.bytes, second.bytes, sizeof(first.bytes)), 0);
  char bus[16];
  CUdevice found = -1;
  EXPECT_SUCCESS(cuDeviceGetPCIBusId(bus, sizeof(bus), 1));
  EXPECT_SUCCESS(cuDeviceGetByPCIBusId(&found, bus));
  EXPECT_EQ(found, 1);
}

TEST_F(Device, DevicesHaveMemoryOfTheirOwn) {
  CUcontext second = nullptr;
  ASSERT_SUCCESS(cuDevicePrimaryCtxRetain(&second, 1));
  ASSERT_SUCCESS(cuCtxSetCurrent(second));
  const std::size_t theirs = available();
  ASSERT_SUCCESS(cuCtxSetCurrent(context_));
  allocate(16 * simgpu_test::kMiB);
  ASSERT_SUCCESS(cuCtxSetCurrent(second));
  EXPECT_EQ(available(), theirs);
}

}  // namespace
