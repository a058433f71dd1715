// Programs that allocate from pools of memory; see managed_program.cc.
//
//     pool_program SCENARIO KERNELS.fatbin [ARGUMENT]
#include <cuda.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "tests/interposer/programs/program.h"

using programs::allocate;
using programs::hash_of;
using programs::kBytes;
using programs::load_layers;
using programs::print_buffer;
using programs::run_passes;

namespace {

/// Stream-ordered allocations that stay with the driver: of so many sizes, and freed so far out of
/// order, that the pool holds more than is in use.
void small_pools() {
  const auto weights = load_layers(8);
  const CUdeviceptr state = allocate();
  CHECK(cuMemsetD8(state, 0, kBytes));
  run_passes(3, state, weights);
  struct Small {
    CUdeviceptr address;
    std::size_t size;
    unsigned char value;
  };
  std::vector<Small> live;
  std::uint32_t random = 7;
  for (int i = 0; i < 30; ++i) {
    random = random * 1664525u + 1013904223u;
    if (live.size() > 3) {
      const std::size_t at = (random >> 8) % live.size();
      std::vector<unsigned char> bytes(live[at].size);
      CHECK(cuMemcpyDtoH(bytes.data(), live[at].address, bytes.size()));
      for (const unsigned char byte : bytes) {
        if (byte != live[at].value) std::printf("small %d has another value\n", i);
      }
      CHECK(cuMemFreeAsync(live[at].address, nullptr));
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(at));
    }
    Small small{0, 1 + (random >> 12) % (900 << 10), static_cast<unsigned char>(i)};
    CHECK(cuMemAllocAsync(&small.address, small.size, nullptr));
    CHECK(cuMemsetD8Async(small.address, small.value, small.size, nullptr));
    live.push_back(small);
    run_passes(1, state, weights);
  }
  print_buffer("state", state);
}

CUcontext current_context() {
  CUcontext context = nullptr;
  CHECK(cuCtxGetCurrent(&context));
  return context;
}

CUmemoryPool make_pool() {
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemoryPool pool = nullptr;
  CHECK(cuMemPoolCreate(&pool, &properties));
  return pool;
}

/// Pools that are destroyed before what was allocated from them, and code that is loaded then.
void destroyed_pools(const char* large_module) {
  constexpr std::size_t kSmall = 64 << 10;
  const auto weights = load_layers(8);
  const CUdeviceptr state = allocate();
  CHECK(cuMemsetD8(state, 0, kBytes));
  run_passes(3, state, weights);
  CUmemoryPool standard = nullptr;
  CHECK(cuDeviceGetDefaultMemPool(&standard, 0));
  std::printf("destroying the default pool: %d\n", cuMemPoolDestroy(standard));
  for (int round = 0; round < 4; ++round) {
    const CUmemoryPool pool = make_pool();
    CHECK(cuDeviceSetMemPool(0, pool));
    CUdeviceptr small = 0;
    CUdeviceptr large = 0;
    CHECK(cuMemAllocAsync(&small, kSmall, nullptr));
    CHECK(cuMemAllocAsync(&large, kBytes, nullptr));
    CHECK(cuMemsetD8Async(small, static_cast<unsigned char>(round), kSmall, nullptr));
    CHECK(cuMemsetD8Async(large, static_cast<unsigned char>(round + 1), kBytes, nullptr));
    CHECK(cuMemPoolDestroy(pool));
    CUmodule loaded = nullptr;
    CHECK(cuModuleLoad(&loaded, large_module));
    run_passes(2, state, weights);
    std::vector<unsigned char> bytes(kSmall);
    CHECK(cuMemcpyDtoH(bytes.data(), small, kSmall));
    std::printf("small %016llx\n", static_cast<unsigned long long>(hash_of(bytes.data(), kSmall)));
    print_buffer("large", large);
    CHECK(cuMemFreeAsync(small, nullptr));
    CHECK(cuMemFreeAsync(large, nullptr));
    CHECK(cuStreamSynchronize(nullptr));
    CHECK(cuModuleUnload(loaded));
  }
  print_buffer("state", state);
}

/// Several threads make and destroy pools while code is loaded.
void pools_destroyed_in_threads(const char* large_module, CUcontext context) {
  constexpr int kThreads = 2;
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  std::atomic<int> left{kThreads};
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([context, &left] {
      CHECK(cuCtxSetCurrent(context));
      CUstream stream = nullptr;
      CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
      for (int k = 0; k < 300; ++k) {
        const CUmemoryPool pool = make_pool();
        CUdeviceptr small = 0;
        CHECK(cuMemAllocFromPoolAsync(&small, 512, pool, stream));
        CHECK(cuMemPoolDestroy(pool));
        CHECK(cuMemFreeAsync(small, stream));
        CHECK(cuStreamSynchronize(stream));
      }
      --left;
    });
  }
  do {
    CUmodule loaded = nullptr;
    CHECK(cuModuleLoad(&loaded, large_module));
    CHECK(cuModuleUnload(loaded));
  } while (left > 0);
  for (std::thread& thread : threads) thread.join();
  const CUdeviceptr state = allocate();
  CHECK(cuMemsetD8(state, 0, kBytes));
  run_passes(3, state, load_layers(8));
  print_buffer("state", state);
}

/// Small stream-ordered allocations by several threads at a time: none may be refused.
void pools_in_threads(CUcontext context) {
  const auto weights = load_layers(8);
  const CUdeviceptr state = allocate();
  CHECK(cuMemsetD8(state, 0, kBytes));
  run_passes(3, state, weights);
  constexpr int kThreads = 4;
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([context] {
      CHECK(cuCtxSetCurrent(context));
      CUstream stream = nullptr;
      CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
      for (int k = 0; k < 2000; ++k) {
        CUdeviceptr small = 0;
        CHECK(cuMemAllocAsync(&small, 512, stream));
        CHECK(cuMemFreeAsync(small, stream));
      }
      CHECK(cuStreamSynchronize(stream));
    });
  }
  for (std::thread& thread : threads) thread.join();
  run_passes(1, state, weights);
  print_buffer("state", state);
}

/// Buffers that a thread without a context frees in the order of a stream, while others give way.
void freed_without_context() {
  const auto weights = load_layers(8);
  const CUdeviceptr state = allocate();
  CHECK(cuMemsetD8(state, 0, kBytes));
  CUstream stream = nullptr;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  for (int i = 0; i < 6; ++i) {
    CUdeviceptr buffer = 0;
    CHECK(cuMemAllocAsync(&buffer, kBytes, stream));
    CHECK(cuMemsetD8Async(buffer, static_cast<unsigned char>(i + 1), kBytes, stream));
    CHECK(cuStreamSynchronize(stream));
    print_buffer("before", buffer);
    run_passes(1, state, weights);
    std::thread([&] {
      std::printf("default stream %d\n", cuMemFreeAsync(buffer, nullptr));
      CHECK(cuMemFreeAsync(buffer, stream));
    }).join();
  }
  print_buffer("state", state);
}

/// Two streams take small memory that another stream has freed: one that nothing orders behind it,
/// and that stream itself. The pool's attributes are those that PyTorch sets.
void freed_by_another_stream() {
  CUmemoryPool pool = nullptr;
  CHECK(cuDeviceGetDefaultMemPool(&pool, 0));
  for (const CUmemPool_attribute attribute :
       {CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC,
        CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES}) {
    int yes = 1;
    CHECK(cuMemPoolSetAttribute(pool, attribute, &yes));
  }
  std::array<CUstream, 2> streams{};
  for (CUstream& stream : streams) CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  constexpr std::size_t kSmall = std::size_t{64} << 10;
  CUdeviceptr freed = 0;
  CHECK(cuMemAllocAsync(&freed, kSmall, streams[0]));
  CHECK(cuMemFreeAsync(freed, streams[0]));
  // Ends with the free known to the driver, without a call that gives the memory to all streams.
  while (cuStreamQuery(streams[0]) == CUDA_ERROR_NOT_READY) std::this_thread::yield();
  for (std::size_t i = streams.size(); i-- > 0;) {
    CUdeviceptr taken = 0;
    CHECK(cuMemAllocAsync(&taken, kSmall, streams[i]));
    std::printf("%s %s\n", i == 0 ? "the same stream" : "another stream",
                taken == freed ? "takes what was freed" : "takes other memory");
  }
}

/// Is aborted, with a buffer: with the signal's default action, a handler of its own, or ignoring
/// it; or has a forked child that is.
void is_aborted(const std::string& how) {
  if (how == "handled") {
    // By a handler, which the standard does not let print; nothing else runs meanwhile.
    signal(SIGABRT, [](int) {
      std::puts("handled");
      std::fflush(stdout);
      _exit(3);
    });
  }
  if (how == "ignored") signal(SIGABRT, SIG_IGN);
  allocate();
  std::puts("allocated");
  std::fflush(stdout);
  if (how == "ignored") {
    raise(SIGABRT);
    std::puts("goes on");
  } else if (how == "forked") {
    const pid_t child = fork();
    if (child == 0) std::abort();
    int status = 0;
    waitpid(child, &status, 0);
    std::printf("child ended by signal %d\n", WTERMSIG(status));
  } else {
    std::abort();
  }
}

}  // namespace

int main(int count, char** arguments) {
  using programs::without_words;
  using programs::Words;
  return programs::run_scenario(
      count, arguments,
      {
          {"freed_without_context", without_words<freed_without_context>},
          {"freed_by_another_stream", without_words<freed_by_another_stream>},
          {"is_aborted", [](const Words& words) { is_aborted(words.at(1)); }},
          {"small_pools", without_words<small_pools>},
          {"pools_in_threads", [](const Words& /*words*/) { pools_in_threads(current_context()); }},
          {"destroyed_pools", [](const Words& words) { destroyed_pools(words.at(1).c_str()); }},
          {"pools_destroyed_in_threads",
           [](const Words& words) {
             pools_destroyed_in_threads(words.at(1).c_str(), current_context());
           }},
      });
}
