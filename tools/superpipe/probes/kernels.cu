// The kernels of `superpipe doctor`. kernel_plugin.cc has the same ones for simgpu.

#include "tools/superpipe/probes/kernels.h"

namespace {

using superpipe::cli::advanced;
using superpipe::cli::pattern_word;

__device__ unsigned long long first_index() {
  return static_cast<unsigned long long>(blockIdx.x) * blockDim.x + threadIdx.x;
}

__device__ unsigned long long stride() {
  return static_cast<unsigned long long>(gridDim.x) * blockDim.x;
}

__device__ unsigned long long now_ns() {
  unsigned long long time;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
  return time;
}

}  // namespace

// Reads and writes data[0 .. count) until *stop is not 0, at most for limit_ns. One thread of each
// block looks at the flag, which lies on the host: as many reads across the link as there are
// threads held up each change of a mapping for milliseconds.
extern "C" __global__ void probe_busy(unsigned* data, unsigned long long count,
                                      const unsigned* stop, unsigned long long limit_ns) {
  const unsigned long long start = now_ns();
  const volatile unsigned* const asked = stop;
  __shared__ bool is_over;
  do {
    for (unsigned long long i = first_index(); i < count; i += stride()) {
      data[i] = advanced(data[i]);
    }
    __syncthreads();  // nobody reads is_over of the round before any more
    if (threadIdx.x == 0) is_over = *asked != 0 || now_ns() - start >= limit_ns;
    __syncthreads();
  } while (!is_over);
}

// Takes each word `rounds` steps further, through memory each time.
extern "C" __global__ void probe_advance(unsigned* data, unsigned long long count,
                                         unsigned rounds) {
  volatile unsigned* const words = data;
  for (unsigned round = 0; round < rounds; ++round) {
    for (unsigned long long i = first_index(); i < count; i += stride()) {
      words[i] = advanced(words[i]);
    }
  }
}

extern "C" __global__ void probe_fill(unsigned* data, unsigned long long count, unsigned seed) {
  for (unsigned long long i = first_index(); i < count; i += stride()) {
    data[i] = pattern_word(seed, i);
  }
}

// Adds to *mismatches the number of words that are not the pattern's.
extern "C" __global__ void probe_check(const unsigned* data, unsigned long long count,
                                       unsigned seed, unsigned long long* mismatches) {
  unsigned long long wrong = 0;
  for (unsigned long long i = first_index(); i < count; i += stride()) {
    wrong += data[i] != pattern_word(seed, i) ? 1 : 0;
  }
  if (wrong != 0) atomicAdd(mismatches, wrong);
}

// Reads `count` times 16 bytes.
extern "C" __global__ void probe_read(const uint4* data, unsigned long long count,
                                      unsigned long long* sum) {
  unsigned total = 0;
#pragma unroll 4
  for (unsigned long long i = first_index(); i < count; i += stride()) {
    const uint4 four = data[i];
    total += four.x ^ four.y ^ four.z ^ four.w;
  }
  // Never true for what the probes read, but the compiler cannot know: the loads stay.
  if (total == 0x9e3779b9U) atomicAdd(sum, 1ULL);
}

// Writes `count` times 16 bytes.
extern "C" __global__ void probe_write(uint4* data, unsigned long long count, unsigned value) {
  for (unsigned long long i = first_index(); i < count; i += stride()) {
    data[i] = make_uint4(value, value, value, value);
  }
}

// Each thread adds 1 to *counter, `times` times, atomically for the device and the host.
extern "C" __global__ void probe_add(unsigned* counter, unsigned times) {
  for (unsigned i = 0; i < times; ++i) atomicAdd_system(counter, 1U);
}

// What a launch costs when the kernel does nothing; the parameters are what superpipe looks at.
extern "C" __global__ void probe_nothing(const unsigned* first, const unsigned* second,
                                         const unsigned* third, unsigned* fourth) {
  if (first == fourth && second == fourth && third == fourth) *fourth = 0;  // never
}
