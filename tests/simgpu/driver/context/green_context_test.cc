// Green contexts: the primary context under another handle, with streams of its own.
#include "tests/simgpu/driver/support/driver_fixture.h"

namespace {

class GreenContextDriver : public simgpu_test::DriverTest {
 protected:
  void SetUp() override {
    DriverTest::SetUp();
    CUdevResource part{};
    unsigned groups = 1;
    CUdevResource whole{};
    EXPECT_SUCCESS(cuDeviceGetDevResource(0, &whole, CU_DEV_RESOURCE_TYPE_SM));
    EXPECT_SUCCESS(cuDevSmResourceSplitByCount(&part, &groups, &whole, &rest_, 0, 10));
    EXPECT_EQ(groups, 1U);
    EXPECT_EQ(part.sm.smCount, 16U);
    EXPECT_EQ(rest_.sm.smCount, whole.sm.smCount - 16);
    CUdevResourceDesc description = nullptr;
    EXPECT_SUCCESS(cuDevResourceGenerateDesc(&description, &part, 1));
    EXPECT_SUCCESS(cuGreenCtxCreate(&green_, description, 0, CU_GREEN_CTX_DEFAULT_STREAM));
    EXPECT_SUCCESS(cuCtxFromGreenCtx(&converted_, green_));
    EXPECT_SUCCESS(cuDevicePrimaryCtxRetain(&primary_, 0));
  }
  void TearDown() override {
    (void)cuGreenCtxDestroy(green_);
    EXPECT_SUCCESS(cuDevicePrimaryCtxRelease(0));
    DriverTest::TearDown();
  }
  CUstream green_stream() {
    CUstream stream = nullptr;
    EXPECT_SUCCESS(cuGreenCtxStreamCreate(&stream, green_, CU_STREAM_NON_BLOCKING, 0));
    return stream;
  }

  CUgreenCtx green_ = nullptr;
  CUcontext converted_ = nullptr;
  CUcontext primary_ = nullptr;
  CUdevResource rest_{};
};

TEST_F(GreenContextDriver, HasAHandleOfItsOwnThatActsAsThePrimaryContext) {
  EXPECT_NE(converted_, primary_);
  CUgreenCtx none = nullptr;
  EXPECT_EQ(cuGreenCtxCreate(&none, nullptr, 0, CU_GREEN_CTX_DEFAULT_STREAM),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_SUCCESS(cuCtxPushCurrent(converted_));
  CUcontext current = nullptr;
  EXPECT_SUCCESS(cuCtxGetCurrent(&current));
  EXPECT_EQ(current, converted_);
  const CUdeviceptr address = allocate(4096);
  CUcontext owner = nullptr;
  EXPECT_SUCCESS(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, address));
  EXPECT_EQ(owner, primary_);
  EXPECT_SUCCESS(cuCtxPopCurrent(&current));
  EXPECT_EQ(current, converted_);
  EXPECT_SUCCESS(cuGreenCtxDestroy(green_));
  EXPECT_SUCCESS(cuCtxPushCurrent(primary_));
  fill(address, 3, 4096);
  EXPECT_EQ(read(address, 1).front(), 3);
  EXPECT_SUCCESS(cuCtxPopCurrent(nullptr));
  EXPECT_EQ(cuCtxPushCurrent(converted_), CUDA_ERROR_INVALID_CONTEXT);
}

TEST_F(GreenContextDriver, ItsStreamsTellWhoseTheyAre) {
  const CUstream stream = green_stream();
  CUcontext context = nullptr;
  CUgreenCtx green = nullptr;
  EXPECT_SUCCESS(cuStreamGetCtx(stream, &context));
  EXPECT_EQ(context, converted_);
  EXPECT_SUCCESS(cuStreamGetCtx_v2(stream, &context, &green));
  EXPECT_EQ(context, primary_);
  EXPECT_EQ(green, green_);
  EXPECT_SUCCESS(cuStreamGetGreenCtx(make_stream(), &green));
  EXPECT_EQ(green, nullptr);
  EXPECT_SUCCESS(cuCtxPushCurrent(converted_));
  CUstream made = nullptr;
  EXPECT_EQ(cuStreamCreate(&made, CU_STREAM_DEFAULT), CUDA_ERROR_INVALID_VALUE);
  EXPECT_SUCCESS(cuStreamCreate(&made, CU_STREAM_NON_BLOCKING));
  EXPECT_SUCCESS(cuStreamGetGreenCtx(made, &green));
  EXPECT_EQ(green, green_);
  EXPECT_SUCCESS(cuStreamGetGreenCtx(nullptr, &green));
  EXPECT_EQ(green, green_);
  EXPECT_EQ(cuStreamQuery(CU_STREAM_PER_THREAD), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_SUCCESS(cuCtxPopCurrent(nullptr));
}

TEST_F(GreenContextDriver, EventsOfThePrimaryContextOrderItsStreams) {
  const CUdeviceptr address = allocate(1 << 20);
  const CUstream stream = green_stream();
  CUevent event = nullptr;
  EXPECT_SUCCESS(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  EXPECT_SUCCESS(cuMemsetD8Async(address, 5, 1 << 20, stream));
  EXPECT_SUCCESS(cuEventRecord(event, stream));
  EXPECT_SUCCESS(cuEventSynchronize(event));
  EXPECT_EQ(read(address, 1).front(), 5);
  EXPECT_SUCCESS(cuEventDestroy(event));
}

TEST_F(GreenContextDriver, ItsStreamsAreDetachedWhenItIsGone) {
  const CUstream stream = green_stream();
  EXPECT_SUCCESS(cuGreenCtxDestroy(green_));
  EXPECT_EQ(cuStreamQuery(stream), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  EXPECT_EQ(cuStreamDestroy(stream), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  EXPECT_EQ(cuGreenCtxDestroy(green_), CUDA_ERROR_INVALID_CONTEXT);
}

}  // namespace
