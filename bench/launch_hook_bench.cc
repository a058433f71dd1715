// What the launch hook adds to a launch whose buffers are all resident, over a driver that does
// nothing.
#include <benchmark/benchmark.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "interposer/context_registry.h"
#include "interposer/driver/table.h"
#include "interposer/generated/hooks.h"
#include "interposer/process_configuration.h"
#include "tests/interposer/null_driver.h"

namespace superpipe {
namespace {

constexpr std::size_t kArguments = 8;
constexpr std::size_t kLiveBuffers = 10'000;
/// Small, so that the host store of ten thousand fits everywhere; each still has pages of its own.
constexpr std::size_t kBufferBytes = 4096;

const std::vector<CUdeviceptr>& live_buffers() {
  static const std::vector<CUdeviceptr> buffers = [] {
    testing::install_null_driver(kArguments);
    Configuration configuration;
    configuration.min_buffer = Bytes{kBufferBytes};
    set_process_configuration(configuration);
    std::vector<CUdeviceptr> all(kLiveBuffers);
    for (CUdeviceptr& buffer : all) {
      if (hook::cuMemAlloc_v2(&buffer, kBufferBytes) != CUDA_SUCCESS ||
          !ContextRegistry::managed()->in_arena(buffer)) {
        std::fputs("launch_hook_bench: cannot make its buffers\n", stderr);
        std::exit(1);
      }
    }
    return all;
  }();
  return buffers;
}

/// Times launches, each of which names other buffers than the last, spread over all live ones.
template <typename Launch>
void launches(benchmark::State& state, const Launch& launch) {
  const auto& buffers = live_buffers();
  std::array<CUdeviceptr, kArguments> values{};
  std::array<void*, kArguments> parameters{};
  for (std::size_t i = 0; i < kArguments; ++i) parameters[i] = &values[i];
  std::size_t next = 0;
  for (auto _ : state) {
    for (CUdeviceptr& value : values) {
      value = buffers[next];
      next = (next + 997) % buffers.size();
    }
    const CUresult result = launch(testing::null_kernel(next % 64), parameters.data());
    if (result != CUDA_SUCCESS) state.SkipWithError("the launch failed");
  }
}

void BM_LaunchWithoutHook(benchmark::State& state) {
  launches(state, [](CUfunction kernel, void** parameters) {
    return driver().cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr);
  });
}
BENCHMARK(BM_LaunchWithoutHook);

void BM_LaunchHook(benchmark::State& state) {
  launches(state, [](CUfunction kernel, void** parameters) {
    return hook::cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr);
  });
}
BENCHMARK(BM_LaunchHook);

}  // namespace
}  // namespace superpipe

BENCHMARK_MAIN();
