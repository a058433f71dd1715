// What the kernels of tests/gpu take, and what they compute: kernels.cu on a device,
// kernel_plugin.cc on the host for simgpu.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define GPU_TEST_BOTH __host__ __device__
#else
#define GPU_TEST_BOTH
#endif

namespace gpu_test {

using Word = std::uint64_t;

/// The operands of a mix. As one by-value parameter its pointers lie inside a struct.
struct Mix {
  Word seed;
  Word out_words;
  Word first_words;
  Word second_words;
  Word* out;
  const Word* first;
  const Word* second;
};

/// Word `index` of the mix's output: depends on the word there before, on every `out_words`-th word
/// of both inputs from `index` on, and on each one's place. Integers modulo 2^64, so that every
/// device gives the same.
GPU_TEST_BOTH inline Word mixed(const Mix& mix, Word index) {
  constexpr Word kFactor = 0x9E3779B97F4A7C15U;
  Word value = mix.out[index] * kFactor + mix.seed + index;
  for (Word i = index; i < mix.first_words; i += mix.out_words) {
    value = (value ^ mix.first[i]) * kFactor;
  }
  for (Word i = index; i < mix.second_words; i += mix.out_words) {
    value = (value ^ (value >> 29U)) * kFactor + mix.second[i];
  }
  return value;
}

}  // namespace gpu_test
