// What the launch hook adds to a launch whose buffers are all resident, over a driver that does
// nothing; and what it adds to that to record the launch in a trace.
#include <benchmark/benchmark.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
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

std::vector<CUdeviceptr> make_buffers(const std::string& trace_file) {
  testing::install_null_driver(kArguments);
  Configuration configuration;
  configuration.min_buffer = Bytes{kBufferBytes};
  configuration.trace_file = trace_file;
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
}

const std::vector<CUdeviceptr>& live_buffers() {
  static const std::vector<CUdeviceptr> buffers = make_buffers("");
  return buffers;
}

/// The buffers of another context, which takes the place of the first.
const std::vector<CUdeviceptr>& traced_buffers() {
  static const std::vector<CUdeviceptr> buffers = [] {
    ContextRegistry::of_process().abandon();
    const char* const file = std::getenv("LAUNCH_HOOK_BENCH_TRACE");
    std::vector<CUdeviceptr> made = make_buffers(file != nullptr ? file : "/dev/null");
    if (ContextRegistry::managed()->trace() == nullptr) std::exit(1);
    return made;
  }();
  return buffers;
}

/// Times launches, each of which names other buffers than the last, spread over all live ones.
template <typename Launch>
void launches(benchmark::State& state, const std::vector<CUdeviceptr>& buffers,
              const Launch& launch) {
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

CUresult hooked(CUfunction kernel, void** parameters) {
  return hook::cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr);
}

void BM_LaunchWithoutHook(benchmark::State& state) {
  launches(state, live_buffers(), [](CUfunction kernel, void** parameters) {
    return driver().cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr);
  });
}
BENCHMARK(BM_LaunchWithoutHook);

void BM_LaunchHook(benchmark::State& state) { launches(state, live_buffers(), hooked); }
BENCHMARK(BM_LaunchHook);

// The last of all: it ends the context of the others. LAUNCH_HOOK_BENCH_TRACE=FILE keeps the trace.
// Launches follow each other without a rest, so that the thread that writes competes for the caches
// all the time.
void BM_LaunchHookTraced(benchmark::State& state) { launches(state, traced_buffers(), hooked); }
BENCHMARK(BM_LaunchHookTraced);

}  // namespace
}  // namespace superpipe

BENCHMARK_MAIN();
