// What the link and a launch cost on this device, as one JSON object; knows nothing of superpipe.
//
//     device_probe link [--mib N] [--repeats N]
//     device_probe launches [--count N]
#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <vector>

#include "tests/gpu/device.h"

namespace {

using gpu_test::kernel;

template <typename T>
T middle(std::vector<T> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

/// Bytes per second of `copy`, of `bytes` bytes each time: the median of `repeats`, by events.
template <typename Copy>
double bandwidth(std::size_t bytes, std::uint64_t repeats, CUstream stream, const Copy& copy) {
  CUevent begin = nullptr;
  CUevent end = nullptr;
  CHECK(cuEventCreate(&begin, CU_EVENT_DEFAULT));
  CHECK(cuEventCreate(&end, CU_EVENT_DEFAULT));
  std::vector<float> times;
  for (std::uint64_t i = 0; i <= repeats; ++i) {
    float milliseconds = 0;
    CHECK(cuEventRecord(begin, stream));
    copy();
    CHECK(cuEventRecord(end, stream));
    CHECK(cuEventSynchronize(end));
    CHECK(cuEventElapsedTime(&milliseconds, begin, end));
    if (i > 0) times.push_back(milliseconds);  // the first one warms up
  }
  return static_cast<double>(bytes) / (static_cast<double>(middle(times)) / 1e3);
}

void measure_link(std::size_t bytes, std::uint64_t repeats) {
  CUstream stream = nullptr;
  CUdeviceptr device = 0;
  void* host = nullptr;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CHECK(cuMemAlloc(&device, bytes));
  CHECK(cuMemHostAlloc(&host, bytes, 0));
  std::memset(host, 1, bytes);
  const double h2d = bandwidth(bytes, repeats, stream,
                               [&] { CHECK(cuMemcpyHtoDAsync(device, host, bytes, stream)); });
  const double d2h = bandwidth(bytes, repeats, stream,
                               [&] { CHECK(cuMemcpyDtoHAsync(host, device, bytes, stream)); });
  std::printf("{\"bytes\": %zu, \"repeats\": %" PRIu64
              ", \"h2d_bytes_per_second\": %.0f, \"d2h_bytes_per_second\": %.0f}\n",
              bytes, repeats, h2d, d2h);
}

/// Nanoseconds of each of `count` launches, as the launching thread sees them.
std::vector<double> launch_times(CUfunction function, void** parameters, std::uint64_t count) {
  constexpr std::uint64_t kQueue = 256;  // fewer than any driver's queue holds before it blocks
  std::vector<double> times;
  for (std::uint64_t i = 0; i < count + kQueue; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    CHECK(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, nullptr, parameters, nullptr));
    const std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - begin;
    if (i >= kQueue) times.push_back(time.count());
    if (i % kQueue == kQueue - 1) CHECK(cuCtxSynchronize());
  }
  return times;
}

void print_launches(const char* name, std::vector<double> times, const char* end) {
  std::sort(times.begin(), times.end());
  std::printf("\"%s\": {\"p50_ns\": %.0f, \"p99_ns\": %.0f}%s", name, times[times.size() / 2],
              times[times.size() * 99 / 100], end);
}

void measure_launches(std::uint64_t count) {
  constexpr std::size_t kBuffers = 64;
  constexpr std::size_t kParameters = 8;
  std::vector<CUdeviceptr> buffers(kBuffers);
  for (CUdeviceptr& buffer : buffers) CHECK(cuMemAlloc(&buffer, std::size_t{2} << 20));
  void* parameters[kParameters];
  for (std::size_t i = 0; i < kParameters; ++i) parameters[i] = &buffers[i * 7];
  std::printf("{\"launches\": %" PRIu64 ", ", count);
  print_launches("no_buffers", launch_times(kernel("nothing"), nullptr, count), ", ");
  print_launches("eight_buffers", launch_times(kernel("nothing_with_buffers"), parameters, count),
                 "}\n");
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view what = argc > 1 ? argv[1] : "";
  const auto count = [&](std::string_view name, std::uint64_t fallback) {
    return std::max<std::uint64_t>(1, gpu_test::number_option(argc, argv, name, fallback));
  };
  if (what != "link" && what != "launches") {
    std::fputs("usage: device_probe link [--mib N] [--repeats N] | launches [--count N]\n", stderr);
    return 2;
  }
  gpu_test::open_device();
  if (what == "link") {
    measure_link(static_cast<std::size_t>(count("--mib", 64)) << 20, count("--repeats", 20));
  } else {
    measure_launches(count("--count", 20'000));
  }
  return 0;
}
