// Kernels of the conformance suite. kernel_plugin.cc has the same ones for simgpu.

#include "tests/conformance/kernels.h"

namespace {

__device__ unsigned long long now() {
  unsigned long long time;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
  return time;
}

__device__ void wait(unsigned long long nanoseconds) {
  const unsigned long long start = now();
  while (now() - start < nanoseconds) {
  }
}

}  // namespace

// out[0 .. count) = value, after `nanoseconds`. One thread.
extern "C" __global__ void fill_after(unsigned* out, unsigned value, unsigned count,
                                      unsigned long long nanoseconds) {
  wait(nanoseconds);
  for (unsigned i = 0; i < count; ++i) out[i] = value;
}

// out[0 .. count) = in[0 .. count). One thread.
extern "C" __global__ void copy_words(unsigned* out, const unsigned* in, unsigned count) {
  for (unsigned i = 0; i < count; ++i) out[i] = in[i];
}

// out[0 .. count) = in * factor + addend. One thread.
extern "C" __global__ void combine(conformance::Operands operands, unsigned addend,
                                   unsigned short count) {
  for (unsigned i = 0; i < count; ++i) operands.out[i] = operands.in[i] * operands.factor + addend;
}
