#include <cstring>
#include <string>
#include <thread>

#include "tests/simgpu/driver/support/driver_fixture.h"

namespace {

using simgpu_test::kCapacity;
using Device = simgpu_test::DriverTest;
using Context = simgpu_test::DriverTest;

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
  EXPECT_EQ(attribute(CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED), 0);
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

TEST_F(Device, ErrorsHaveNamesAndTexts) {
  const char* text = nullptr;
  EXPECT_SUCCESS(cuGetErrorName(CUDA_ERROR_OUT_OF_MEMORY, &text));
  EXPECT_STREQ(text, "CUDA_ERROR_OUT_OF_MEMORY");
  EXPECT_SUCCESS(cuGetErrorString(CUDA_ERROR_OUT_OF_MEMORY, &text));
  EXPECT_STREQ(text, "out of memory");
  EXPECT_EQ(cuGetErrorName(static_cast<CUresult>(998), &text), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(text, nullptr);
}

TEST_F(Context, PrimaryContextIsOneAndCountsItsRetains) {
  CUcontext again = nullptr;
  EXPECT_SUCCESS(cuDevicePrimaryCtxRetain(&again, 0));
  EXPECT_EQ(again, context_);
  EXPECT_SUCCESS(cuDevicePrimaryCtxRelease(0));
  unsigned flags = 0;
  int active = 0;
  EXPECT_SUCCESS(cuDevicePrimaryCtxGetState(0, &flags, &active));
  EXPECT_EQ(active, 1);
  EXPECT_SUCCESS(cuDevicePrimaryCtxRelease(0));
  EXPECT_SUCCESS(cuDevicePrimaryCtxGetState(0, &flags, &active));
  EXPECT_EQ(active, 0);
  EXPECT_EQ(cuDevicePrimaryCtxRelease(0), CUDA_ERROR_INVALID_CONTEXT);
}

TEST_F(Context, CallsWithoutACurrentContextAreRefused) {
  std::thread other{[] {
    CUdeviceptr address = 0;
    EXPECT_EQ(cuMemAlloc(&address, 512), CUDA_ERROR_INVALID_CONTEXT);
    CUcontext current = reinterpret_cast<CUcontext>(1);
    EXPECT_SUCCESS(cuCtxGetCurrent(&current));
    EXPECT_EQ(current, nullptr);
  }};
  other.join();
}

TEST_F(Context, PushAndPopFormAStack) {
  CUcontext second = nullptr;
  ASSERT_SUCCESS(cuCtxCreate(&second, nullptr, 0, 1));
  CUdevice device = -1;
  EXPECT_SUCCESS(cuCtxGetDevice(&device));
  EXPECT_EQ(device, 1);
  CUcontext popped = nullptr;
  EXPECT_SUCCESS(cuCtxPopCurrent(&popped));
  EXPECT_EQ(popped, second);
  EXPECT_SUCCESS(cuCtxGetDevice(&device));
  EXPECT_EQ(device, 0);
  EXPECT_SUCCESS(cuCtxPushCurrent(second));
  EXPECT_SUCCESS(cuCtxDestroy(second));
  EXPECT_SUCCESS(cuCtxGetDevice(&device));
  EXPECT_EQ(device, 0);
  EXPECT_EQ(cuCtxDestroy(second), CUDA_ERROR_INVALID_CONTEXT);
}

TEST_F(Context, DestroyedContextRefusesCallsOfOtherThreads) {
  CUcontext second = nullptr;
  ASSERT_SUCCESS(cuCtxCreate(&second, nullptr, 0, 0));
  ASSERT_SUCCESS(cuCtxPopCurrent(nullptr));
  ASSERT_SUCCESS(cuCtxPushCurrent(second));
  std::thread other{[&] { EXPECT_SUCCESS(cuCtxDestroy(second)); }};
  other.join();
  CUdeviceptr address = 0;
  EXPECT_EQ(cuMemAlloc(&address, 512), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  EXPECT_SUCCESS(cuCtxSetCurrent(context_));
}

TEST_F(Context, IdsAreUnique) {
  CUcontext second = nullptr;
  ASSERT_SUCCESS(cuCtxCreate(&second, nullptr, 0, 0));
  unsigned long long first_id = 0;
  unsigned long long second_id = 0;
  EXPECT_SUCCESS(cuCtxGetId(context_, &first_id));
  EXPECT_SUCCESS(cuCtxGetId(second, &second_id));
  EXPECT_NE(first_id, second_id);
  EXPECT_SUCCESS(cuCtxDestroy(second));
}

}  // namespace
