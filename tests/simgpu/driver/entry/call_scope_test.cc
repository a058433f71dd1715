// Driver calls that cost time, and locks that other threads' calls wait for.
#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include "tests/hang_limit.h"
#include "tests/simgpu/driver/support/driver_fixture.h"

namespace {

using simgpu_test::kGranule;
using simgpu_test::kMiB;
using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::duration<double, std::milli>;

double milliseconds(const std::function<void()>& call) {
  const auto start = Clock::now();
  call();
  return Milliseconds{Clock::now() - start}.count();
}

/// A thousand times what they cost on a card: creating a page takes 193 ms, asking for an event
/// 0.6.
class CallScope : public simgpu_test::DriverTest {
 protected:
  static void SetUpTestSuite() {
    DriverTest::SetUpTestSuite();
    setenv("SIMGPU_CALL_COSTS", "1000", 1);
    setenv("SIMGPU_PIN_GBPS", "0.02", 1);
  }

  /// Whether `call` of this thread waits for a page that another thread is creating. A busy machine
  /// can bring the two threads out of step, so they try until it is as `expected`.
  bool waits_for_a_page(bool expected, const std::function<void()>& call) {
    const superpipe::testing::HangGuard guard;
    while (!guard.is_over()) {
      std::atomic<bool> begun{false};
      Clock::time_point created;
      std::thread other{[&] {
        EXPECT_SUCCESS(cuCtxSetCurrent(context_));
        begun = true;
        EXPECT_SUCCESS(cuMemRelease(create(kGranule)));
        created = Clock::now();
      }};
      while (!begun) std::this_thread::yield();
      std::this_thread::sleep_for(std::chrono::milliseconds{20});
      const auto start = Clock::now();
      call();
      const auto end = Clock::now();
      other.join();
      if (Milliseconds{created - start}.count() < 50) continue;  // began too late
      if ((Milliseconds{end - start}.count() > 50) == expected) return expected;
    }
    return !expected;
  }
};

TEST_F(CallScope, ACallTakesItsTimeAtLeast) {
  EXPECT_GE(milliseconds([] { EXPECT_SUCCESS(cuMemRelease(create(kGranule))); }), 193);
  const CUevent event = make_event();
  EXPECT_GE(milliseconds([&] { EXPECT_SUCCESS(cuEventQuery(event)); }), 0.6);
}

TEST_F(CallScope, PinningTakesItsBytesOverItsSpeed) {
  void* memory = nullptr;
  EXPECT_GE(milliseconds([&] { EXPECT_SUCCESS(cuMemAllocHost(&memory, 4 * kMiB)); }),
            4.0 * kMiB / 0.02e6);
  std::vector<unsigned char> own(4 * kMiB);
  EXPECT_GE(milliseconds([&] { EXPECT_SUCCESS(cuMemHostRegister(own.data(), own.size(), 0)); }),
            4.0 * kMiB / 0.02e6);
  EXPECT_SUCCESS(cuMemHostUnregister(own.data()));
}

TEST_F(CallScope, WorkIsSubmittedOnlyWhenNobodyChangesTheAddressSpace) {
  const CUstream stream = make_stream();
  const CUevent event = make_event();
  EXPECT_TRUE(waits_for_a_page(true, [&] { EXPECT_SUCCESS(cuEventRecord(event, stream)); }));
  EXPECT_TRUE(waits_for_a_page(true, [&] { EXPECT_SUCCESS(cuEventQuery(event)); }));
}

TEST_F(CallScope, ChangingTheCurrentContextTakesNoLock) {
  EXPECT_FALSE(waits_for_a_page(false, [&] { EXPECT_SUCCESS(cuCtxSetCurrent(context_)); }));
}

TEST_F(CallScope, ACallThatWaitsForWorkHoldsNothingMeanwhile) {
  const CUstream stream = make_stream();
  std::atomic<bool> release{false};
  ASSERT_SUCCESS(cuLaunchHostFunc(
      stream,
      [](void* flag) {
        while (!*static_cast<std::atomic<bool>*>(flag)) std::this_thread::yield();
      },
      &release));
  const CUdeviceptr memory = allocate(kMiB);
  std::thread freeing{[&] {
    EXPECT_SUCCESS(cuCtxSetCurrent(context_));
    EXPECT_SUCCESS(cuMemFree(memory));
  }};
  // Would never return if the thread that waits for the stream held one of the locks. The first
  // page takes longer than that thread needs until it waits.
  for (int i = 0; i < 2; ++i) {
    EXPECT_SUCCESS(cuMemRelease(create(kGranule)));
    EXPECT_SUCCESS(cuEventRecord(make_event(), make_stream()));
  }
  release = true;
  freeing.join();
}

class ImplicitSync : public simgpu_test::DriverTest {
 protected:
  static void SetUpTestSuite() {
    DriverTest::SetUpTestSuite();
    setenv("SIMGPU_IMPLICIT_SYNC", "on", 1);
  }
  /// Whether `call` waits for a copy that runs for 67 ms.
  static bool waits_for_work(const std::function<void()>& call) {
    const CUdeviceptr device = allocate(16 * kMiB);
    unsigned char* const host = allocate_host(16 * kMiB);
    const CUstream stream = make_stream();
    EXPECT_SUCCESS(cuMemcpyHtoDAsync(device, host, 16 * kMiB, stream));
    call();
    const bool waited = cuStreamQuery(stream) == CUDA_SUCCESS;
    EXPECT_SUCCESS(cuMemFree(device));
    return waited;
  }
};

TEST_F(ImplicitSync, AllocationAndPinningWaitForTheContext) {
  std::vector<unsigned char> own(4096);
  void* memory = nullptr;
  EXPECT_TRUE(waits_for_work([] { allocate(kMiB); }));
  EXPECT_TRUE(waits_for_work([&] { EXPECT_SUCCESS(cuMemAllocHost(&memory, kMiB)); }));
  EXPECT_TRUE(
      waits_for_work([&] { EXPECT_SUCCESS(cuMemHostRegister(own.data(), own.size(), 0)); }));
}

TEST_F(ImplicitSync, VirtualMemoryManagementDoesNotWait) {
  // On a busy machine the copy may end before the call does.
  const superpipe::testing::HangGuard guard;
  bool waited = true;
  while (waited && !guard.is_over()) waited = waits_for_work([] { create(kGranule); });
  EXPECT_FALSE(waited);
}

}  // namespace
