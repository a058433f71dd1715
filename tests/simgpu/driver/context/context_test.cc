#include <thread>

#include "tests/simgpu/driver/support/driver_fixture.h"

namespace {

using Context = simgpu_test::DriverTest;

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

TEST_F(Context, PeerAccessIsEnabledOnceAndEndsWithTheContext) {
  int can_access = -1;
  EXPECT_SUCCESS(cuDeviceCanAccessPeer(&can_access, 0, 1));
  EXPECT_EQ(can_access, 1);
  EXPECT_SUCCESS(cuDeviceCanAccessPeer(&can_access, 0, 0));
  EXPECT_EQ(can_access, 0);
  CUcontext far = nullptr;
  ASSERT_SUCCESS(cuCtxCreate(&far, nullptr, 0, 1));
  ASSERT_SUCCESS(cuCtxPopCurrent(nullptr));
  EXPECT_EQ(cuCtxEnablePeerAccess(context_, 0), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cuCtxEnablePeerAccess(far, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuCtxDisablePeerAccess(far), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
  EXPECT_SUCCESS(cuCtxEnablePeerAccess(far, 0));
  EXPECT_EQ(cuCtxEnablePeerAccess(far, 0), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
  EXPECT_SUCCESS(cuCtxDisablePeerAccess(far));
  EXPECT_SUCCESS(cuCtxEnablePeerAccess(far, 0));
  EXPECT_SUCCESS(cuCtxDestroy(far));
  EXPECT_EQ(cuCtxDisablePeerAccess(far), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
  EXPECT_EQ(cuCtxEnablePeerAccess(far, 0), CUDA_ERROR_INVALID_CONTEXT);
}

}  // namespace
