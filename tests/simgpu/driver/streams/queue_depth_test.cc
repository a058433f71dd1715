// A stream's queue holds so many operations, and then a call waits.
#include <unistd.h>

#include <atomic>
#include <thread>

#include "tests/aside_call.h"
#include "tests/simgpu/driver/support/driver_fixture.h"

namespace {

using simgpu_test::kMiB;

constexpr int kDepth = 8;

class QueueDepth : public simgpu_test::DriverTest {
 protected:
  static void SetUpTestSuite() {
    DriverTest::SetUpTestSuite();
    setenv("SIMGPU_QUEUE_DEPTH", "8", 1);
  }
  void SetUp() override {
    DriverTest::SetUp();
    full_ = make_stream();
    // The first operation does not end before the test lets it.
    ASSERT_SUCCESS(cuLaunchHostFunc(
        full_,
        [](void* flag) {
          while (!*static_cast<std::atomic<bool>*>(flag)) std::this_thread::yield();
        },
        &release_));
  }
  void TearDown() override {
    release_ = true;
    DriverTest::TearDown();
  }
  /// Submits `count` fills to the full stream from another thread, and counts the calls that
  /// returned.
  std::thread submit(int count) {
    return std::thread{[this, count] {
      submitter_ = gettid();
      EXPECT_SUCCESS(cuCtxSetCurrent(context_));
      const CUdeviceptr memory = allocate(4096);
      for (int fill = 0; fill < count; ++fill) {
        EXPECT_SUCCESS(cuMemsetD8Async(memory, 1, 4096, full_));
        ++returned_;
      }
    }};
  }
  void wait_until_full() const {
    while (returned_ < kDepth - 1) std::this_thread::yield();
    superpipe::testing::wait_until_asleep(submitter_);
  }

  CUstream full_ = nullptr;
  std::atomic<bool> release_{false};
  std::atomic<int> returned_{0};
  std::atomic<int> submitter_{0};
};

TEST_F(QueueDepth, ACallWaitsWhileTheQueueIsFull) {
  std::thread other = submit(20);
  wait_until_full();
  EXPECT_EQ(returned_, kDepth - 1) << "with the host function, the queue is full";
  release_ = true;
  other.join();
  EXPECT_EQ(returned_, 20);
}

TEST_F(QueueDepth, OtherStreamsAndCallsGoOn) {
  const CUstream free = make_stream();
  const CUevent event = make_event();
  const CUdeviceptr memory = allocate(kMiB);
  std::thread other = submit(20);
  wait_until_full();
  // Each of these would hang if the waiting thread held a lock that it needs.
  EXPECT_SUCCESS(cuMemsetD8Async(memory, 1, kMiB, free));
  EXPECT_SUCCESS(cuEventRecord(event, free));
  EXPECT_SUCCESS(cuEventSynchronize(event));
  EXPECT_SUCCESS(cuStreamWaitEvent(free, event, 0));
  EXPECT_EQ(cuStreamQuery(full_), CUDA_ERROR_NOT_READY);
  CUdeviceptr pooled = 0;
  EXPECT_SUCCESS(cuMemAllocAsync(&pooled, kMiB, free));
  EXPECT_SUCCESS(cuMemFreeAsync(pooled, free));
  EXPECT_SUCCESS(cuMemRelease(create(simgpu_test::kGranule)));
  EXPECT_SUCCESS(cuStreamSynchronize(free));
  release_ = true;
  other.join();
}

TEST_F(QueueDepth, AllocatingFromAPoolDoesNotHoldItWhileItWaits) {
  CUdeviceptr pooled = 0;
  const CUstream free = make_stream();
  EXPECT_SUCCESS(cuMemAllocAsync(&pooled, kMiB, free));
  EXPECT_SUCCESS(cuMemFreeAsync(pooled, free));
  EXPECT_SUCCESS(cuStreamSynchronize(free));
  std::thread filling = submit(kDepth - 1);
  filling.join();
  std::atomic<int> allocating{0};
  std::thread other{[&] {
    EXPECT_SUCCESS(cuCtxSetCurrent(context_));
    CUdeviceptr mine = 0;
    allocating = gettid();
    EXPECT_SUCCESS(cuMemAllocAsync(&mine, kMiB, full_));
    EXPECT_SUCCESS(cuMemFreeAsync(mine, full_));
  }};
  while (allocating == 0) std::this_thread::yield();
  superpipe::testing::wait_until_asleep(allocating);
  EXPECT_SUCCESS(cuMemAllocAsync(&pooled, kMiB, free));
  EXPECT_SUCCESS(cuMemFreeAsync(pooled, free));
  release_ = true;
  other.join();
}

TEST_F(QueueDepth, WaitingForAnEventOfAFullStreamEnds) {
  const CUevent event = make_event();
  const CUstream second = make_stream();
  EXPECT_SUCCESS(cuEventRecord(event, full_));
  EXPECT_SUCCESS(cuStreamWaitEvent(second, event, 0));
  const CUdeviceptr memory = allocate(4096);
  std::thread both{[&] {
    EXPECT_SUCCESS(cuCtxSetCurrent(context_));
    for (int fill = 0; fill < 3 * kDepth; ++fill) {
      EXPECT_SUCCESS(cuMemsetD8Async(memory, 1, 4096, second));
      EXPECT_SUCCESS(cuMemsetD8Async(memory, 1, 4096, full_));
    }
  }};
  release_ = true;
  both.join();
  EXPECT_SUCCESS(cuStreamSynchronize(second));
}

}  // namespace
