// Kernels of the wrong programs. kernel_plugin.cc computes those that are extern "C"; simgpu's
// mixer stands in for the others.

#include "tests/simgpu/wrong_programs/kernels.h"

namespace {

__device__ void wait_for(volatile unsigned* gate) {
  gate[wrong_programs::kStarted] = 1;
  __threadfence_system();
  while (gate[wrong_programs::kOpen] == 0) {
  }
}

}  // namespace

// out[0 .. count) = value. One thread, like all of them.
extern "C" __global__ void fill_words(unsigned* out, unsigned value, unsigned count) {
  for (unsigned i = 0; i < count; ++i) out[i] = value;
}

// As fill_words, when the gate is open.
extern "C" __global__ void wait_and_fill(unsigned* out, unsigned value, unsigned count,
                                         volatile unsigned* gate) {
  wait_for(gate);
  for (unsigned i = 0; i < count; ++i) out[i] = value;
}

// As fill_words, and runs on until the gate is open.
extern "C" __global__ void fill_and_wait(unsigned* out, unsigned value, unsigned count,
                                         volatile unsigned* gate) {
  for (unsigned i = 0; i < count; ++i) out[i] = value;
  wait_for(gate);
}

// out[0 .. count) = in[0 .. count).
__global__ void copy_words(unsigned* out, const unsigned* in, unsigned count) {
  for (unsigned i = 0; i < count; ++i) out[i] = in[i];
}

// As copy_words, when the gate is open.
__global__ void wait_and_copy(unsigned* out, const unsigned* in, unsigned count,
                              volatile unsigned* gate) {
  wait_for(gate);
  for (unsigned i = 0; i < count; ++i) out[i] = in[i];
}

// The same, of whose input its name does not tell that it is only read.
extern "C" __global__ void wait_and_copy_plain(unsigned* out, const unsigned* in, unsigned count,
                                               volatile unsigned* gate) {
  wait_for(gate);
  for (unsigned i = 0; i < count; ++i) out[i] = in[i];
}

// As copy_words, and runs on until the gate is open.
__global__ void copy_and_wait(unsigned* out, const unsigned* in, unsigned count,
                              volatile unsigned* gate) {
  for (unsigned i = 0; i < count; ++i) out[i] = in[i];
  wait_for(gate);
}

// As copy_words, as a struct in device memory says when the kernel runs.
extern "C" __global__ void copy_as_told(const wrong_programs::Request* request) {
  for (unsigned i = 0; i < request->count; ++i) request->out[i] = request->in[i];
}

// Reads `in` and writes `out`. No plugin knows it.
__global__ void mix(unsigned* out, const unsigned* in) { *out = *in; }
