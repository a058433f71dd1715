// What the launch hook adds to a launch whose buffers are all resident, over a driver that does
// nothing; and what it adds to that to record the launch in a trace.
#include <benchmark/benchmark.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "interposer/contexts/context_registry.h"
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

/// Launches that a ring of the recorder has room for, and a rest in which it is emptied.
constexpr std::size_t kBatch = 4096;
constexpr std::chrono::milliseconds kRest{10};

/// Times launches, each of which names other buffers than the last, spread over all live ones.
/// `rests`: not without a pause, which is not timed.
template <typename Launch>
void launches(benchmark::State& state, const std::vector<CUdeviceptr>& buffers,
              const Launch& launch, bool rests = false) {
  std::array<CUdeviceptr, kArguments> values{};
  std::array<void*, kArguments> parameters{};
  for (std::size_t i = 0; i < kArguments; ++i) parameters[i] = &values[i];
  std::size_t next = 0;
  std::size_t launched = 0;
  for (auto _ : state) {
    if (rests && ++launched % kBatch == 0) {
      state.PauseTiming();
      std::this_thread::sleep_for(kRest);
      state.ResumeTiming();
    }
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

void BM_LaunchHookWithRests(benchmark::State& state) {
  launches(state, live_buffers(), hooked, true);
}
BENCHMARK(BM_LaunchHookWithRests);

// A tensor's life as frameworks have it under the asynchronous allocator: made on a stream, used by
// a launch, freed on the stream, in sizes that come again. Frameworks compute between such calls,
// while other threads of ours may go to sleep; that is not timed.
void BM_AllocateLaunchAndFree(benchmark::State& state) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::microseconds kBetween{40};
  constexpr std::array<std::size_t, 3> kSizes{4U << 20, 11U << 20, 2U << 20};
  std::array<CUdeviceptr, kArguments> values{};
  std::array<void*, kArguments> parameters{};
  for (std::size_t i = 0; i < kArguments; ++i) {
    parameters[i] = &values[i];
    values[i] = live_buffers()[i];
  }
  std::size_t next = 0;
  for (auto _ : state) {
    const auto begin = Clock::now();
    const CUresult made = hook::cuMemAllocAsync(values.data(), kSizes[next], nullptr);
    const CUresult launched = hooked(testing::null_kernel(next), parameters.data());
    const CUresult freed = hook::cuMemFreeAsync(values[0], nullptr);
    const auto end = Clock::now();
    state.SetIterationTime(std::chrono::duration<double>(end - begin).count());
    next = (next + 1) % kSizes.size();
    if (made != CUDA_SUCCESS || launched != CUDA_SUCCESS || freed != CUDA_SUCCESS) {
      state.SkipWithError("a call failed");
    }
    while (Clock::now() - end < kBetween) {
    }
  }
}
BENCHMARK(BM_AllocateLaunchAndFree)->UseManualTime()->Iterations(20'000);

// From here on the context is another one, and records. LAUNCH_HOOK_BENCH_TRACE=FILE keeps the
// trace. With rests all is recorded, as in programs, whose launches a driver takes microseconds
// for.
void BM_LaunchHookTracedWithRests(benchmark::State& state) {
  launches(state, traced_buffers(), hooked, true);
}
BENCHMARK(BM_LaunchHookTracedWithRests);

// Without rests the thread that writes competes for the caches all the time, does not keep up, and
// most launches are dropped.
void BM_LaunchHookTraced(benchmark::State& state) { launches(state, traced_buffers(), hooked); }
BENCHMARK(BM_LaunchHookTraced);

}  // namespace
}  // namespace superpipe

BENCHMARK_MAIN();
