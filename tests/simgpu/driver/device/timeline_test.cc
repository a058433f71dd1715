// Modelled time. Lower bounds must always hold. A loaded machine can be too slow for its model,
// which the driver reports as an overrun: where there is an upper bound, a test waits for a run in
// time.
#include <algorithm>
#include <functional>

#include "tests/hang_limit.h"
#include "tests/simgpu/driver/support/driver_fixture.h"

namespace {

using simgpu_test::kLinkGbps;
using simgpu_test::kMiB;

class Timeline : public simgpu_test::DriverTest {
 protected:
  /// Takes 134 ms to copy: longer than a machine mostly keeps a thread from overtaking it.
  static constexpr std::size_t kLarge = 32 * kMiB;

  static double copy_ms(std::size_t size) { return static_cast<double>(size) / kLinkGbps * 1e-6; }
  static float elapsed(CUevent start, CUevent end) {
    float milliseconds = -1;
    EXPECT_SUCCESS(cuEventSynchronize(start));  // may be of another stream than the end
    EXPECT_SUCCESS(cuEventSynchronize(end));
    EXPECT_SUCCESS(cuEventElapsedTime(&milliseconds, start, end));
    return milliseconds;
  }
  /// Runs until `run` says that what it submitted last was still to come when it had seen enough: a
  /// busy machine may keep it from that.
  static void until_in_time(const std::function<bool()>& run) {
    const superpipe::testing::HangGuard guard;
    while (!run()) ASSERT_FALSE(guard.is_over());
  }
  /// The shortest of some runs; stops when one is not above `enough`.
  static float best(float enough, const std::function<float()>& run) {
    const superpipe::testing::HangGuard guard;
    float shortest = 1e9F;
    while (shortest > enough && !guard.is_over()) shortest = std::min(shortest, run());
    return shortest;
  }
};

TEST_F(Timeline, CopyTakesSizeOverBandwidth) {
  const CUdeviceptr device = allocate(4 * kMiB);
  unsigned char* const host = allocate_host(4 * kMiB);
  const CUstream stream = make_stream();
  const CUevent start = make_event();
  const CUevent end = make_event();
  const auto model = static_cast<float>(copy_ms(4 * kMiB));
  const float shortest = best(model * 1.01F, [&] {
    EXPECT_SUCCESS(cuEventRecord(start, stream));
    EXPECT_SUCCESS(cuMemcpyHtoDAsync(device, host, 4 * kMiB, stream));
    EXPECT_SUCCESS(cuEventRecord(end, stream));
    const float taken = elapsed(start, end);
    EXPECT_GE(taken, model * 0.999F);
    return taken;
  });
  EXPECT_LE(shortest, model * 1.01F);
}

TEST_F(Timeline, PageableCopyIsSlower) {
  const CUdeviceptr device = allocate(kMiB);
  std::vector<unsigned char> host(kMiB);
  const CUstream stream = make_stream();
  const CUevent start = make_event();
  const CUevent end = make_event();
  EXPECT_SUCCESS(cuEventRecord(start, stream));
  EXPECT_SUCCESS(cuMemcpyHtoDAsync(device, host.data(), kMiB, stream));
  EXPECT_SUCCESS(cuEventRecord(end, stream));
  EXPECT_GE(elapsed(start, end), static_cast<float>(copy_ms(kMiB) / 0.4 * 0.999));
}

TEST_F(Timeline, CopiesOfOneDirectionShareTheirEngine) {
  const CUdeviceptr device = allocate(4 * kMiB);
  unsigned char* const host = allocate_host(4 * kMiB);
  const CUstream first = make_stream();
  const CUstream second = make_stream();
  const CUevent start = make_event();
  const CUevent first_end = make_event();
  const CUevent second_end = make_event();
  EXPECT_SUCCESS(cuEventRecord(start, first));
  EXPECT_SUCCESS(cuMemcpyHtoDAsync(device, host, 2 * kMiB, first));
  EXPECT_SUCCESS(cuEventRecord(first_end, first));
  EXPECT_SUCCESS(cuMemcpyHtoDAsync(device + 2 * kMiB, host + 2 * kMiB, 2 * kMiB, second));
  EXPECT_SUCCESS(cuEventRecord(second_end, second));
  const float last = std::max(elapsed(start, first_end), elapsed(start, second_end));
  EXPECT_GE(last, static_cast<float>(copy_ms(4 * kMiB) * 0.999));
}

TEST_F(Timeline, OppositeDirectionsOverlap) {
  const CUdeviceptr in = allocate(4 * kMiB);
  const CUdeviceptr out = allocate(4 * kMiB);
  unsigned char* const host = allocate_host(8 * kMiB);
  const CUstream first = make_stream();
  const CUstream second = make_stream();
  const CUevent start = make_event();
  const CUevent first_end = make_event();
  const CUevent second_end = make_event();
  const auto model = static_cast<float>(copy_ms(4 * kMiB));
  const float shortest = best(model * 1.2F, [&] {
    EXPECT_SUCCESS(cuEventRecord(start, first));
    EXPECT_SUCCESS(cuMemcpyHtoDAsync(in, host, 4 * kMiB, first));
    EXPECT_SUCCESS(cuEventRecord(first_end, first));
    EXPECT_SUCCESS(cuMemcpyDtoHAsync(host + 4 * kMiB, out, 4 * kMiB, second));
    EXPECT_SUCCESS(cuEventRecord(second_end, second));
    return std::max(elapsed(start, first_end), elapsed(start, second_end));
  });
  EXPECT_GE(shortest, model * 0.999F);
  EXPECT_LE(shortest, model * 1.2F);
}

TEST_F(Timeline, MissingWaitReadsOldBytesAndAnEventCuresIt) {
  const CUdeviceptr device = allocate(kLarge);
  unsigned char* const host = allocate_host(kLarge);
  unsigned char* const seen = allocate_host(2 * 4096);
  std::fill_n(host, kLarge, static_cast<unsigned char>(5));
  const CUstream producer = make_stream();
  const CUstream consumer = make_stream();
  const CUevent done = make_event(CU_EVENT_DISABLE_TIMING);
  until_in_time([&] {
    fill(device, 0, kLarge);
    EXPECT_SUCCESS(cuMemcpyHtoDAsync(device, host, kLarge, producer));
    EXPECT_SUCCESS(cuEventRecord(done, producer));
    EXPECT_SUCCESS(cuMemcpyDtoHAsync(seen, device, 4096, consumer));
    EXPECT_SUCCESS(cuStreamSynchronize(consumer));
    return cuEventQuery(done) == CUDA_ERROR_NOT_READY;
  });
  EXPECT_EQ(seen[0], 0);
  EXPECT_EQ(seen[4095], 0);
  EXPECT_SUCCESS(cuStreamWaitEvent(consumer, done, 0));
  EXPECT_SUCCESS(cuMemcpyDtoHAsync(seen, device, 4096, consumer));
  EXPECT_SUCCESS(cuMemcpyDtoHAsync(seen + 4096, device + kLarge - 4096, 4096, consumer));
  EXPECT_SUCCESS(cuStreamSynchronize(consumer));
  EXPECT_EQ(seen[0], 5);
  EXPECT_EQ(seen[8191], 5);
}

TEST_F(Timeline, HostRunsAheadOfTheStream) {
  const CUdeviceptr device = allocate(8 * kMiB);
  unsigned char* const host = allocate_host(8 * kMiB);
  const CUstream stream = make_stream();
  until_in_time([&] {
    for (int copy = 0; copy < 4; ++copy) {
      EXPECT_SUCCESS(cuMemcpyHtoDAsync(device, host, 8 * kMiB, stream));
    }
    return cuStreamQuery(stream) == CUDA_ERROR_NOT_READY;
  });
  EXPECT_SUCCESS(cuStreamSynchronize(stream));
  EXPECT_SUCCESS(cuStreamQuery(stream));
}

TEST_F(Timeline, LegacyStreamWaitsForBlockingStreamsAndTheyForIt) {
  const CUdeviceptr device = allocate(8 * kMiB);
  unsigned char* const host = allocate_host(8 * kMiB);
  std::fill_n(host, 8 * kMiB, static_cast<unsigned char>(5));
  CUstream blocking = nullptr;
  ASSERT_SUCCESS(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
  EXPECT_SUCCESS(cuMemcpyHtoDAsync(device, host, 4 * kMiB, blocking));
  EXPECT_SUCCESS(cuMemcpyDtoDAsync(device + 4 * kMiB, device, 4 * kMiB, nullptr));
  unsigned char* const seen = allocate_host(4 * kMiB);
  EXPECT_SUCCESS(cuMemcpyDtoHAsync(seen, device + 4 * kMiB, 4 * kMiB, blocking));
  EXPECT_SUCCESS(cuStreamSynchronize(blocking));
  EXPECT_TRUE(std::all_of(seen, seen + 4 * kMiB, [](unsigned char byte) { return byte == 5; }));
}

TEST_F(Timeline, NonBlockingStreamDoesNotWaitForTheLegacyStream) {
  const CUdeviceptr device = allocate(kLarge);
  unsigned char* const host = allocate_host(kLarge);
  std::fill_n(host, kLarge, static_cast<unsigned char>(5));
  unsigned char* const seen = allocate_host(4096);
  const CUstream stream = make_stream();
  until_in_time([&] {
    fill(device, 0, kLarge);
    EXPECT_SUCCESS(cuMemcpyHtoDAsync(device, host, kLarge, nullptr));
    EXPECT_SUCCESS(cuMemcpyDtoHAsync(seen, device, 4096, stream));
    EXPECT_SUCCESS(cuStreamSynchronize(stream));
    return cuStreamQuery(nullptr) == CUDA_ERROR_NOT_READY;
  });
  EXPECT_EQ(seen[0], 0);
}

}  // namespace
