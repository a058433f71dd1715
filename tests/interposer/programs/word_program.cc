// A CUDA program with words that look like addresses and are none, on the driver API; it knows
// nothing of superpipe. Each scenario prints what it computed.
//
//     word_program SCENARIO KERNELS.fatbin
#include <cuda.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/interposer/programs/program.h"

using programs::accumulate;
using programs::allocate;
using programs::kBytes;
using programs::kFloats;
using programs::load_layers;
using programs::print_buffer;

namespace {

/// Numbers in copies to the device: pairs of 32 bits, a size and a count each, and nanoseconds
/// since the start of a machine. simgpu reserves low from 0xB'2200'0000 on.
void numbers() {
  constexpr std::uint32_t kPairs = 32768;
  constexpr std::uint64_t kUptime = 47'800'000'000;
  const auto weights = load_layers(8);
  const CUdeviceptr state = allocate();
  CHECK(cuMemsetD8(state, 0, kBytes));
  std::vector<std::uint32_t> pairs;
  std::vector<std::uint64_t> times;
  for (std::uint32_t i = 0; i < kPairs; ++i) {
    pairs.push_back(i % 2048 << 21);
    pairs.push_back(i / 2048);
    times.push_back(kUptime + std::uint64_t{i} * 10'000);
  }
  const CUdeviceptr table = allocate(sizeof(std::uint64_t) * kPairs);
  for (int pass = 0; pass < 3; ++pass) {
    CHECK(cuMemcpyHtoD(table, pairs.data(), sizeof(std::uint64_t) * kPairs));
    CHECK(cuMemcpyHtoD(table, times.data(), sizeof(std::uint64_t) * kPairs));
    for (const CUdeviceptr weight : weights) accumulate(state, weight, 0.5f);
  }
  print_buffer("state", state);
}

/// Structs whose last bytes no member covers, where the stack has the addresses of two buffers that
/// an earlier call used. The layers grow, until one launch with all of that exceeds the budget.
void leftovers() {
  struct Operands {
    int count;
    CUdeviceptr output;
    CUdeviceptr input;
    CUdeviceptr left[2];
  };
  const auto weights = load_layers(6);
  const CUdeviceptr state = allocate();
  CHECK(cuMemsetD8(state, 0, kBytes));
  Operands operands{kFloats, state, 0, {allocate(), allocate()}};
  for (const CUdeviceptr left : operands.left) CHECK(cuMemsetD8(left, 1, kBytes));
  const auto use = [&](CUdeviceptr weight) {
    operands.input = weight;
    float factor = 0.5f;
    void* parameters[] = {&operands, &factor};
    CHECK(cuLaunchKernel(programs::function("accumulate_padded"), kFloats / 256, 1, 1, 256, 1, 1, 0,
                         nullptr, parameters, nullptr));
  };
  for (int pass = 0; pass < 2; ++pass) {
    for (const CUdeviceptr weight : weights) use(weight);
  }
  constexpr std::size_t kLarge = 4 * kBytes;
  for (int i = 0; i < 3; ++i) {
    const CUdeviceptr large = allocate(kLarge);
    CHECK(cuMemsetD32(large, 0x3F000000, kLarge / sizeof(float)));
    use(large);
    for (const CUdeviceptr weight : weights) use(weight);
  }
  print_buffer("state", state);
  for (const CUdeviceptr left : operands.left) print_buffer("left", left);
}

/// Two operands in a struct that exceed a budget of 16 MiB, once others of that kernel did not.
void large_operands() {
  struct Operands {
    int count;
    CUdeviceptr output;
    CUdeviceptr input;
  };
  constexpr std::size_t kLarge = 5 * kBytes;
  for (const std::size_t size : {kBytes, kBytes, kLarge}) {
    Operands operands{kFloats, allocate(size), allocate(size)};
    float factor = 1;
    void* parameters[] = {&operands, &factor};
    const CUresult result = cuLaunchKernel(programs::function("accumulate_struct"), kFloats / 256,
                                           1, 1, 256, 1, 1, 0, nullptr, parameters, nullptr);
    std::printf("launch %d\n", static_cast<int>(result));
  }
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 3) return 2;
  const std::string scenario = arguments[1];
  CHECK(cuInit(0));
  programs::use_primary_context(arguments[2]);
  if (scenario == "numbers") {
    numbers();
  } else if (scenario == "operands") {
    large_operands();
  } else if (scenario == "leftovers") {
    leftovers();
  } else {
    return 2;
  }
  return 0;
}
