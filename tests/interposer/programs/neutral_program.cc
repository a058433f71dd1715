// Passes in which everything fits: what superpipe adds to them shows when calls are counted.
//
//     neutral_program steady KERNELS.fatbin PASSES IDLE_MS SMALL_COPIES(yes|no)
//     neutral_program streaming KERNELS.fatbin PASSES LAUNCHES_EACH IDLE_MS
#include <cuda.h>

#include <chrono>
#include <cstring>
#include <string>
#include <thread>

#include "tests/interposer/programs/program.h"

using programs::allocate;
using programs::function;
using programs::kBytes;
using programs::kFloats;
using programs::load_layers;
using programs::print_buffer;

namespace {

/// Passes that do the same each time, and then nothing for a while: what superpipe adds to a pass
/// or to a moment shows when there are more of them.
void steady(int passes, int idle_ms, bool small_copies) {
  const auto weights = load_layers(8);
  const CUdeviceptr state = allocate();
  const CUdeviceptr small = allocate(4096);
  const CUfunction kernel = function("accumulate");
  CUstream stream = nullptr;
  CHECK(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
  CUevent event = nullptr;
  CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  void* pinned = nullptr;
  CHECK(cuMemHostAlloc(&pinned, 4096, 0));
  std::memset(pinned, 1, 4096);
  CHECK(cuMemsetD8(state, 0, kBytes));
  CHECK(cuCtxSynchronize());
  std::size_t free = 0;
  std::size_t total = 0;
  for (int pass = 0; pass < passes; ++pass) {
    for (CUdeviceptr weight : weights) {
      float factor = 0.5f;
      int count = kFloats;
      CUdeviceptr output = state;
      void* parameters[] = {&output, &weight, &factor, &count};
      CHECK(cuLaunchKernel(kernel, kFloats / 256, 1, 1, 256, 1, 1, 0, stream, parameters, nullptr));
    }
    if (small_copies) CHECK(cuMemcpyHtoDAsync(small, pinned, 4096, stream));
    CHECK(cuMemcpyDtoHAsync(pinned, state, 4096, stream));
    CHECK(cuMemcpyDtoDAsync(weights[0], weights[1], 4096, stream));
    CHECK(cuEventRecord(event, stream));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemGetInfo(&free, &total));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(idle_ms));
  print_buffer("state", state);
  std::printf("free %zu of %zu\n", free, total);
}

/// Passes over more layers than a budget may have room for, with so many launches of each layer in
/// a row, of which all but the first find it in place; and then nothing for a while.
void streaming(int passes, int launches_each, int idle_ms) {
  const auto weights = load_layers(8);
  const CUdeviceptr state = allocate();
  const CUfunction kernel = function("accumulate");
  CHECK(cuMemsetD8(state, 0, kBytes));
  for (int pass = 0; pass < passes; ++pass) {
    for (CUdeviceptr weight : weights) {
      for (int launch = 0; launch < launches_each; ++launch) {
        float factor = 0.5f;
        int count = 256;  // little to compute: calls are counted
        CUdeviceptr output = state;
        void* parameters[] = {&output, &weight, &factor, &count};
        CHECK(cuLaunchKernel(kernel, 1, 1, 1, 256, 1, 1, 0, nullptr, parameters, nullptr));
      }
      CHECK(cuStreamSynchronize(nullptr));
    }
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(idle_ms));
  print_buffer("state", state);
}

int number(const programs::Words& words, std::size_t place) { return std::stoi(words.at(place)); }

}  // namespace

int main(int count, char** arguments) {
  return programs::run_scenario(count, arguments,
                                {{"steady",
                                  [](const programs::Words& words) {
                                    steady(number(words, 1), number(words, 2),
                                           words.at(3) == "yes");
                                  }},
                                 {"streaming", [](const programs::Words& words) {
                                    streaming(number(words, 1), number(words, 2), number(words, 3));
                                  }}});
}
