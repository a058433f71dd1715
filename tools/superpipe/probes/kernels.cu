// The kernels of `superpipe doctor`. kernel_plugin.cc has the same ones for simgpu.

#include <cuda.h>

#include "tools/superpipe/probes/kernels.h"

namespace {

using superpipe::cli::advanced;
using superpipe::cli::kAtomicWords;
using superpipe::cli::kTileColumns;
using superpipe::cli::kTileRows;
using superpipe::cli::kUpperStep;
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

// Whether a loop that began at `start` may go on: what never comes to its end by itself ends here.
__device__ bool has_time_left(unsigned long long start) { return now_ns() - start < 1000000000ULL; }

// to[i * step] = from[i * step] for all i < count.
template <typename Element>
__device__ void move(Element* to, const Element* from, unsigned long long count,
                     unsigned long long step) {
#pragma unroll 4
  for (unsigned long long i = first_index(); i < count; i += stride()) {
    to[i * step] = from[i * step];
  }
}

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
__device__ unsigned shared_address(const void* pointer) {
  return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

// Waits until the barrier has left the phase of that parity, at most for a second.
__device__ bool wait_for_phase(unsigned barrier, unsigned parity) {
  const unsigned long long start = now_ns();
  unsigned is_over = 0;
  while (is_over == 0 && has_time_left(start)) {
    asm volatile(
        "{ .reg .pred p;\n"
        "  mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
        "  selp.u32 %0, 1, 0, p; }"
        : "=r"(is_over)
        : "r"(barrier), "r"(parity)
        : "memory");
  }
  return is_over != 0;
}
#endif

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

// Moves words and groups of four, from one place to another that is as far apart.
extern "C" __global__ void probe_move4(unsigned* to, const unsigned* from, unsigned long long count,
                                       unsigned long long step) {
  move(to, from, count, step);
}
extern "C" __global__ void probe_move16(uint4* to, const uint4* from, unsigned long long count,
                                        unsigned long long step) {
  move(to, from, count, step);
}

// As probe_check, where of each `step` groups of `group` words the first has the pattern `moved`,
// and the others have the pattern `rest`.
extern "C" __global__ void probe_check_moved(const unsigned* data, unsigned long long count,
                                             unsigned long long group, unsigned long long step,
                                             unsigned moved, unsigned rest,
                                             unsigned long long* mismatches) {
  unsigned long long wrong = 0;
  for (unsigned long long i = first_index(); i < count; i += stride()) {
    const unsigned seed = i / group % step == 0 ? moved : rest;
    wrong += data[i] != pattern_word(seed, i) ? 1 : 0;
  }
  if (wrong != 0) atomicAdd(mismatches, wrong);
}

// Adds to *mismatches the number of words that are not `value`.
extern "C" __global__ void probe_check_value(const unsigned* data, unsigned long long count,
                                             unsigned value, unsigned long long* mismatches) {
  unsigned long long wrong = 0;
  for (unsigned long long i = first_index(); i < count; i += stride()) {
    wrong += data[i] != value ? 1 : 0;
  }
  if (wrong != 0) atomicAdd(mismatches, wrong);
}

// Each thread adds 1 to one of the words, `times` times: by an addition, by comparing and swapping
// 8 bytes, and 16. All are atomic for the device alone. A swap that never succeeds is given up.
extern "C" __global__ void probe_add64(unsigned long long* words, unsigned times) {
  unsigned long long* const word = words + first_index() % kAtomicWords;
  for (unsigned i = 0; i < times; ++i) atomicAdd(word, 1ULL);
}
extern "C" __global__ void probe_cas64(unsigned long long* words, unsigned times) {
  unsigned long long* const word = words + first_index() % kAtomicWords;
  const unsigned long long start = now_ns();
  unsigned long long expected = 0;  // a wrong guess only costs one more round
  for (unsigned done = 0; done < times && has_time_left(start);) {
    const unsigned long long seen = atomicCAS(word, expected, expected + 1);
    done += seen == expected ? 1 : 0;
    expected = seen == expected ? expected + 1 : seen;
  }
}
// Adds kUpperStep to the upper half as well. Needs compute capability 9.0, and does nothing below.
extern "C" __global__ void probe_cas128(ulonglong2* words, unsigned times) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  ulonglong2* const word = words + first_index() % kAtomicWords;
  const unsigned long long start = now_ns();
  unsigned long long low = 0, high = 0;
  for (unsigned done = 0; done < times && has_time_left(start);) {
    unsigned long long seen_low = 0, seen_high = 0;
    asm volatile(
        "{ .reg .b128 old, expected, wanted;\n"
        "  mov.b128 expected, {%2, %3};\n"
        "  mov.b128 wanted, {%4, %5};\n"
        "  atom.relaxed.gpu.global.cas.b128 old, [%6], expected, wanted;\n"
        "  mov.b128 {%0, %1}, old; }"
        : "=l"(seen_low), "=l"(seen_high)
        : "l"(low), "l"(high), "l"(low + 1), "l"(high + kUpperStep),
          "l"(__cvta_generic_to_global(word))
        : "memory");
    const bool swapped = seen_low == low && seen_high == high;
    done += swapped ? 1 : 0;
    low = swapped ? low + 1 : seen_low;
    high = swapped ? high + kUpperStep : seen_high;
  }
#endif
}

// Copies a matrix of tiles by tensor maps: each block loads one tile after the other into shared
// memory and stores it. Adds the tiles that it has stored to *moved. Needs compute capability 9.0,
// and does nothing below.
extern "C" __global__ void probe_move_tiles(const __grid_constant__ CUtensorMap from,
                                            const __grid_constant__ CUtensorMap to,
                                            unsigned tiles_in_row, unsigned tiles,
                                            unsigned long long* moved) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  __shared__ alignas(128) unsigned tile[kTileRows * kTileColumns];
  __shared__ alignas(8) unsigned long long barrier_word;
  if (threadIdx.x != 0) return;  // one thread asks for the copies, which are the device's own
  const unsigned barrier = shared_address(&barrier_word);
  const unsigned target = shared_address(tile);
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier) : "memory");
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  unsigned parity = 0;
  for (unsigned at = blockIdx.x; at < tiles; at += gridDim.x) {
    const unsigned x = at % tiles_in_row * kTileColumns;
    const unsigned y = at / tiles_in_row * kTileRows;
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier),
                 "r"(static_cast<unsigned>(sizeof(tile)))
                 : "memory");
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
        " [%0], [%1, {%2, %3}], [%4];" ::"r"(target),
        "l"(&from), "r"(x), "r"(y), "r"(barrier)
        : "memory");
    if (!wait_for_phase(barrier, parity)) return;
    parity ^= 1;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    asm volatile(
        "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&to),
        "r"(x), "r"(y), "r"(target)
        : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");  // the tile is free, and stored
    atomicAdd(moved, 1ULL);
  }
#endif
}
