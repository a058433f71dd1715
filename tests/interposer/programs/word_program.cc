// A CUDA program with words that look like addresses and are none, on the driver API; it knows
// nothing of superpipe. Each scenario prints what it computed.
//
//     word_program SCENARIO KERNELS.fatbin
#include <cuda.h>

#include <cstdint>
#include <vector>

#include "tests/interposer/programs/program.h"

using programs::accumulate;
using programs::allocate;
using programs::kBytes;
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

}  // namespace

int main(int count, char** arguments) {
  using programs::without_words;
  return programs::run_scenario(count, arguments, {{"numbers", without_words<numbers>}});
}
