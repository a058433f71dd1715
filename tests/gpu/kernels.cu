#include "tests/gpu/kernels.h"

using gpu_test::Mix;
using gpu_test::Word;

namespace {

__device__ void mix_all(const Mix& mix) {
  const Word stride = Word{gridDim.x} * blockDim.x;
  for (Word i = Word{blockIdx.x} * blockDim.x + threadIdx.x; i < mix.out_words; i += stride) {
    mix.out[i] = gpu_test::mixed(mix, i);
  }
}

}  // namespace

extern "C" __global__ void mix_struct(Mix mix) { mix_all(mix); }

extern "C" __global__ void mix(Word* out, const Word* first, const Word* second, Word out_words,
                               Word first_words, Word second_words, Word seed) {
  mix_all({seed, out_words, first_words, second_words, out, first, second});
}

// What a launch costs is measured with kernels that do nothing.
extern "C" __global__ void nothing() {}
extern "C" __global__ void nothing_with_buffers(Word*, Word*, Word*, Word*, Word*, Word*, Word*,
                                                Word*) {}
