// Contexts, outputs of failed calls, stream capture.

#include <thread>

#include "tests/conformance/fixture.h"

namespace conformance {
namespace {

using Context = ConformanceTest;
using FailedCall = ConformanceTest;
using Capture = ConformanceTest;

CUcontext current() {
  CUcontext context = nullptr;
  CU_EXPECT(CUDA_SUCCESS, cu().cuCtxGetCurrent(&context));
  return context;
}

TEST_F(Context, IsPushedAndPoppedLikeAStack) {
  const CUcontext context = current();
  ASSERT_NE(context, nullptr);
  CU_ASSERT(cu().cuCtxPushCurrent(context));
  EXPECT_EQ(current(), context);
  CUcontext popped = nullptr;
  CU_ASSERT(cu().cuCtxPopCurrent(&popped));
  EXPECT_EQ(popped, context);
  EXPECT_EQ(current(), context);
  CU_ASSERT(cu().cuCtxPopCurrent(&popped));
  EXPECT_EQ(current(), nullptr);
  CU_ASSERT(cu().cuCtxPushCurrent(context));
}

TEST_F(Context, IsTheSamePrimaryOneForEveryRetain) {
  CUcontext again = nullptr;
  CU_ASSERT(cu().cuDevicePrimaryCtxRetain(&again, 0));
  EXPECT_EQ(again, current());
  CU_ASSERT(cu().cuDevicePrimaryCtxRelease(0));
  const Buffer still_alive(16);
  EXPECT_NE(still_alive.address(), 0U);
}

TEST_F(Context, IsNotInheritedByANewThread) {
  const CUcontext context = current();
  std::thread other([context] {
    EXPECT_EQ(current(), nullptr);
    CUdeviceptr memory = 0;
    CU_EXPECT(CUDA_ERROR_INVALID_CONTEXT, cu().cuMemAlloc(&memory, 4096));
    CU_EXPECT(CUDA_SUCCESS, cu().cuCtxSetCurrent(context));
    CU_EXPECT(CUDA_SUCCESS, cu().cuMemAlloc(&memory, 4096));
    CU_EXPECT(CUDA_SUCCESS, cu().cuMemFree(memory));
  });
  other.join();
}

TEST_F(Context, KnowsItsDevice) {
  CUdevice device = 7;
  CU_ASSERT(cu().cuCtxGetDevice(&device));
  EXPECT_EQ(device, 0);
}

TEST_F(FailedCall, OfCuMemAllocSetsItsOutputToZero) {
  CUdeviceptr memory = 0x1234;
  CU_EXPECT(CUDA_ERROR_OUT_OF_MEMORY, cu().cuMemAlloc(&memory, size_t{1} << 55));
  EXPECT_EQ(memory, 0U);
  CU_EXPECT(CUDA_ERROR_INVALID_VALUE, cu().cuMemAlloc(&memory, 0));
}

TEST_F(FailedCall, OfCuMemAllocAsyncSetsItsOutputToZero) {
  CUdeviceptr memory = 0x1234;
  CU_EXPECT(CUDA_ERROR_OUT_OF_MEMORY, cu().cuMemAllocAsync(&memory, size_t{1} << 50, nullptr));
  EXPECT_EQ(memory, 0U);
}

TEST_F(FailedCall, OfCuStreamCreateLeavesItsOutput) {
  auto* stream = reinterpret_cast<CUstream>(0x1234);
  CU_EXPECT_REFUSED(cu().cuStreamCreate(&stream, 0xffff));
  EXPECT_EQ(stream, reinterpret_cast<CUstream>(0x1234));
}

TEST_F(FailedCall, OfCuEventElapsedTimeLeavesItsOutput) {
  const Event first;
  const Event second;
  float milliseconds = -5;
  CU_EXPECT_REFUSED(cu().cuEventElapsedTime(&milliseconds, first.get(), second.get()));
  EXPECT_EQ(milliseconds, -5);
}

TEST_F(FailedCall, OfCuModuleGetFunctionSetsItsOutputToNull) {
  CUmodule module = nullptr;
  CU_ASSERT(cu().cuModuleLoadData(&module, fat_binary()));
  auto* found = reinterpret_cast<CUfunction>(0x1234);
  CU_EXPECT(CUDA_ERROR_NOT_FOUND, cu().cuModuleGetFunction(&found, module, "no_such_kernel"));
  EXPECT_EQ(found, nullptr);
  CU_EXPECT(CUDA_SUCCESS, cu().cuModuleUnload(module));
}

TEST_F(Capture, ModeOfAThreadIsExchanged) {
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  CU_ASSERT(cu().cuThreadExchangeStreamCaptureMode(&mode));
  EXPECT_EQ(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
  CU_ASSERT(cu().cuThreadExchangeStreamCaptureMode(&mode));
  EXPECT_EQ(mode, CU_STREAM_CAPTURE_MODE_RELAXED);
}

TEST_F(Capture, IsNotGoingOnInAFreshStream) {
  const Stream stream;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
  CU_ASSERT(cu().cuStreamIsCapturing(stream.get(), &status));
  EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_NONE);
}

TEST_F(Capture, IsSeenByCuStreamIsCapturing) {
  const Stream stream;
  CU_ASSERT(cu().cuStreamBeginCapture(stream.get(), CU_STREAM_CAPTURE_MODE_RELAXED));
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  CU_EXPECT(CUDA_SUCCESS, cu().cuStreamIsCapturing(stream.get(), &status));
  EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
  CUgraph graph = nullptr;
  CU_ASSERT(cu().cuStreamEndCapture(stream.get(), &graph));
  CU_EXPECT(CUDA_SUCCESS, cu().cuGraphDestroy(graph));
}

TEST_F(Capture, AllowsARelaxedThreadToWorkBesideAGlobalOne) {
  const Stream stream;
  const Buffer data(16);
  CU_ASSERT(cu().cuStreamBeginCapture(stream.get(), CU_STREAM_CAPTURE_MODE_GLOBAL));
  const CUcontext context = current();
  std::thread other([context, &data] {
    CU_EXPECT(CUDA_SUCCESS, cu().cuCtxSetCurrent(context));
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    CU_EXPECT(CUDA_SUCCESS, cu().cuThreadExchangeStreamCaptureMode(&mode));
    const Stream own;
    const Event event;
    CU_EXPECT(CUDA_SUCCESS, fill(own.get(), data.address(), 4, 16));
    CU_EXPECT(CUDA_SUCCESS, cu().cuEventRecord(event.get(), own.get()));
    CU_EXPECT(CUDA_SUCCESS, cu().cuEventSynchronize(event.get()));
    CUdeviceptr memory = 0;
    CU_EXPECT(CUDA_SUCCESS, cu().cuMemAlloc(&memory, 4096));
    CU_EXPECT(CUDA_SUCCESS, cu().cuMemFree(memory));
  });
  other.join();
  CUgraph graph = nullptr;
  CU_ASSERT(cu().cuStreamEndCapture(stream.get(), &graph));
  CU_EXPECT(CUDA_SUCCESS, cu().cuGraphDestroy(graph));
}

}  // namespace
}  // namespace conformance
