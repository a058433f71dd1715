#include <atomic>
#include <thread>

#include "tests/simgpu/driver/support/driver_fixture.h"

namespace {

using simgpu_test::kMiB;
using Stream = simgpu_test::DriverTest;

void CUDA_CB set_flag(void* flag) { static_cast<std::atomic<int>*>(flag)->store(1); }

void CUDA_CB call_the_driver(void* result) {
  CUstream stream = nullptr;
  *static_cast<CUresult*>(result) = cuStreamCreate(&stream, 0);
}

void CUDA_CB note_status(CUstream, CUresult status, void* seen) {
  *static_cast<CUresult*>(seen) = status;
}

/// Holds a stream up until it is opened.
struct Gate {
  std::atomic<bool> open{false};
  static void CUDA_CB wait(void* gate) { static_cast<Gate*>(gate)->open.wait(false); }
  void release() {
    open = true;
    open.notify_all();
  }
};

TEST_F(Stream, HostFunctionRunsAfterWhatCameBefore) {
  const CUstream stream = make_stream();
  Gate gate;
  std::atomic<int> ran{0};
  EXPECT_SUCCESS(cuLaunchHostFunc(stream, Gate::wait, &gate));
  EXPECT_SUCCESS(cuLaunchHostFunc(stream, set_flag, &ran));
  EXPECT_EQ(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
  EXPECT_EQ(ran, 0);
  gate.release();
  EXPECT_SUCCESS(cuStreamSynchronize(stream));
  EXPECT_EQ(ran, 1);
}

TEST_F(Stream, HostFunctionMayNotCallTheDriver) {
  const CUstream stream = make_stream();
  CUresult result = CUDA_SUCCESS;
  EXPECT_SUCCESS(cuLaunchHostFunc(stream, call_the_driver, &result));
  EXPECT_SUCCESS(cuStreamSynchronize(stream));
  EXPECT_EQ(result, CUDA_ERROR_NOT_PERMITTED);
}

TEST_F(Stream, CallbackIsToldTheStatus) {
  const CUstream stream = make_stream();
  CUresult seen = CUDA_ERROR_UNKNOWN;
  EXPECT_SUCCESS(cuStreamAddCallback(stream, note_status, &seen, 0));
  EXPECT_SUCCESS(cuStreamSynchronize(stream));
  EXPECT_SUCCESS(seen);
}

TEST_F(Stream, DestroyLetsPendingWorkFinishAndInvalidatesTheHandle) {
  const CUstream stream = make_stream();
  Gate gate;
  std::atomic<int> ran{0};
  EXPECT_SUCCESS(cuLaunchHostFunc(stream, Gate::wait, &gate));
  EXPECT_SUCCESS(cuLaunchHostFunc(stream, set_flag, &ran));
  EXPECT_SUCCESS(cuStreamDestroy(stream));
  EXPECT_EQ(cuStreamQuery(stream), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuStreamDestroy(stream), CUDA_ERROR_INVALID_HANDLE);
  gate.release();
  EXPECT_SUCCESS(cuCtxSynchronize());
  EXPECT_EQ(ran, 1);
}

TEST_F(Stream, WaitsForAnEventOfAnotherStream) {
  const CUstream first = make_stream();
  const CUstream second = make_stream();
  const CUevent event = make_event(CU_EVENT_DISABLE_TIMING);
  Gate gate;
  std::atomic<int> ran{0};
  EXPECT_SUCCESS(cuLaunchHostFunc(first, Gate::wait, &gate));
  EXPECT_SUCCESS(cuEventRecord(event, first));
  EXPECT_SUCCESS(cuStreamWaitEvent(second, event, 0));
  EXPECT_SUCCESS(cuLaunchHostFunc(second, set_flag, &ran));
  EXPECT_EQ(cuStreamQuery(second), CUDA_ERROR_NOT_READY);
  EXPECT_EQ(ran, 0);
  gate.release();
  EXPECT_SUCCESS(cuStreamSynchronize(second));
  EXPECT_EQ(ran, 1);
}

TEST_F(Stream, LaterRecordDoesNotMoveAnEarlierWait) {
  const CUstream first = make_stream();
  const CUstream second = make_stream();
  const CUevent event = make_event();
  Gate gate;
  EXPECT_SUCCESS(cuEventRecord(event, first));
  EXPECT_SUCCESS(cuStreamWaitEvent(second, event, 0));
  EXPECT_SUCCESS(cuLaunchHostFunc(first, Gate::wait, &gate));
  EXPECT_SUCCESS(cuEventRecord(event, first));
  EXPECT_SUCCESS(cuStreamSynchronize(second));
  EXPECT_EQ(cuEventQuery(event), CUDA_ERROR_NOT_READY);
  gate.release();
  EXPECT_SUCCESS(cuEventSynchronize(event));
}

TEST_F(Stream, EventNeverRecordedIsComplete) {
  const CUevent event = make_event();
  EXPECT_SUCCESS(cuEventQuery(event));
  EXPECT_SUCCESS(cuEventSynchronize(event));
  EXPECT_SUCCESS(cuStreamWaitEvent(make_stream(), event, 0));
}

TEST_F(Stream, ElapsedTimeRefusesUntimedUnrecordedAndUnfinishedEvents) {
  const CUstream stream = make_stream();
  const CUevent timed = make_event();
  const CUevent other = make_event();
  const CUevent untimed = make_event(CU_EVENT_DISABLE_TIMING);
  float milliseconds = 0;
  EXPECT_EQ(cuEventElapsedTime(&milliseconds, timed, other), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_SUCCESS(cuEventRecord(timed, stream));
  EXPECT_SUCCESS(cuEventRecord(untimed, stream));
  EXPECT_EQ(cuEventElapsedTime(&milliseconds, timed, untimed), CUDA_ERROR_INVALID_HANDLE);
  Gate gate;
  EXPECT_SUCCESS(cuLaunchHostFunc(stream, Gate::wait, &gate));
  EXPECT_SUCCESS(cuEventRecord(other, stream));
  EXPECT_EQ(cuEventElapsedTime(&milliseconds, timed, other), CUDA_ERROR_NOT_READY);
  gate.release();
  EXPECT_SUCCESS(cuEventSynchronize(other));
  EXPECT_SUCCESS(cuEventElapsedTime(&milliseconds, timed, other));
  EXPECT_GE(milliseconds, 0);
}

TEST_F(Stream, EventCreationRefusesUnknownFlags) {
  CUevent event = nullptr;
  EXPECT_EQ(cuEventCreate(&event, 0x100), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuEventCreate(&event, CU_EVENT_INTERPROCESS), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuEventDestroy(reinterpret_cast<CUevent>(&event)), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(Stream, RecordRefusesAnEventOfAnotherContext) {
  CUcontext second = nullptr;
  ASSERT_SUCCESS(cuDevicePrimaryCtxRetain(&second, 1));
  ASSERT_SUCCESS(cuCtxSetCurrent(second));
  const CUevent theirs = make_event();
  ASSERT_SUCCESS(cuCtxSetCurrent(context_));
  EXPECT_EQ(cuEventRecord(theirs, make_stream()), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(Stream, AttributesAreThoseOfItsCreation) {
  CUstream stream = nullptr;
  EXPECT_SUCCESS(cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, -100));
  unsigned flags = 0;
  int priority = 0;
  CUcontext owner = nullptr;
  EXPECT_SUCCESS(cuStreamGetFlags(stream, &flags));
  EXPECT_SUCCESS(cuStreamGetPriority(stream, &priority));
  EXPECT_SUCCESS(cuStreamGetCtx(stream, &owner));
  EXPECT_EQ(flags, unsigned{CU_STREAM_NON_BLOCKING});
  EXPECT_EQ(priority, -5);  // clamped to the range
  EXPECT_EQ(owner, context_);
  CUgreenCtx green = reinterpret_cast<CUgreenCtx>(1);
  EXPECT_SUCCESS(cuStreamGetCtx_v2(stream, &owner, &green));
  EXPECT_EQ(green, nullptr);
  EXPECT_EQ(cuStreamCreate(&stream, 2), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Stream, NothingIsCapturing) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  EXPECT_SUCCESS(cuStreamIsCapturing(make_stream(), &status));
  EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_NONE);
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  EXPECT_SUCCESS(cuThreadExchangeStreamCaptureMode(&mode));
  EXPECT_EQ(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
  EXPECT_SUCCESS(cuThreadExchangeStreamCaptureMode(&mode));
  EXPECT_EQ(mode, CU_STREAM_CAPTURE_MODE_RELAXED);
}

TEST_F(Stream, PerThreadStreamsAreOnePerThread) {
  unsigned long long mine = 0;
  unsigned long long again = 0;
  unsigned long long theirs = 0;
  EXPECT_SUCCESS(cuStreamGetId(CU_STREAM_PER_THREAD, &mine));
  EXPECT_SUCCESS(cuStreamGetId(CU_STREAM_PER_THREAD, &again));
  std::thread other{[&] {
    EXPECT_SUCCESS(cuCtxSetCurrent(context_));
    EXPECT_SUCCESS(cuStreamGetId(CU_STREAM_PER_THREAD, &theirs));
  }};
  other.join();
  EXPECT_EQ(mine, again);
  EXPECT_NE(mine, theirs);
}

TEST_F(Stream, ManyThreadsShareOneStream) {
  const CUdeviceptr device = allocate(kMiB);
  const CUstream stream = make_stream();
  std::vector<std::thread> threads;
  for (unsigned char value = 1; value <= 4; ++value) {
    threads.emplace_back([&, value] {
      EXPECT_SUCCESS(cuCtxSetCurrent(context_));
      for (int round = 0; round < 20; ++round) {
        EXPECT_SUCCESS(cuMemsetD8Async(device + value * 4096U, value, 4096, stream));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_SUCCESS(cuStreamSynchronize(stream));
  for (unsigned char value = 1; value <= 4; ++value) {
    EXPECT_EQ(read(device + value * 4096U, 4096), std::vector<unsigned char>(4096, value));
  }
}

TEST_F(Stream, AHandleComesAgainOnceTheWorkIsDone) {
  const CUstream first = make_stream();
  Gate gate;
  EXPECT_SUCCESS(cuLaunchHostFunc(first, Gate::wait, &gate));
  EXPECT_SUCCESS(cuStreamDestroy(first));
  EXPECT_EQ(cuStreamQuery(first), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuStreamDestroy(first), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_NE(make_stream(), first);
  gate.release();
  EXPECT_SUCCESS(cuCtxSynchronize());
  EXPECT_EQ(make_stream(), first);
}

TEST_F(Stream, AnEventsHandleComesAgainAsAnEventThatWasNeverRecorded) {
  const CUstream stream = make_stream();
  const CUevent first = make_event();
  Gate gate;
  EXPECT_SUCCESS(cuLaunchHostFunc(stream, Gate::wait, &gate));
  EXPECT_SUCCESS(cuEventRecord(first, stream));
  EXPECT_EQ(cuEventQuery(first), CUDA_ERROR_NOT_READY);
  EXPECT_SUCCESS(cuEventDestroy(first));
  EXPECT_EQ(cuEventQuery(first), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(make_event(), first);
  EXPECT_SUCCESS(cuEventQuery(first));
  gate.release();
  EXPECT_SUCCESS(cuStreamSynchronize(stream));
}

}  // namespace
