// Device code of the tests, compiled by nvcc as any program's.

#include "tests/simgpu/cudart/kernels.h"

namespace cudart_test {

__device__ int counters[4];
__constant__ float weights[8];
// simgpu has no managed variables; kernels beside one must run all the same.
__managed__ int managed_value;

__global__ void vector_add(const float* a, const float* b, float* out, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) out[i] = a[i] + b[i];
}

__global__ void scale(ScaleParameters parameters, double bias) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < parameters.count) {
    parameters.out[i] = parameters.in[i] * parameters.factor + static_cast<float>(bias);
  }
}

// Keeps the variables in the binary; never launched.
__global__ void touch_symbols(float* out) {
  *out = weights[0] + static_cast<float>(counters[0] + managed_value);
}

cudaError_t launch_vector_add(const float* a, const float* b, float* out, int count,
                              cudaStream_t stream) {
  vector_add<<<(count + 255) / 256, 256, 0, stream>>>(a, b, out, count);
  return cudaGetLastError();
}

cudaError_t launch_scale(ScaleParameters parameters, double bias, cudaStream_t stream) {
  scale<<<(parameters.count + 63) / 64, 64, 0, stream>>>(parameters, bias);
  return cudaGetLastError();
}

cudaError_t launch_with_block(int threads) {
  vector_add<<<1, threads>>>(nullptr, nullptr, nullptr, 0);
  return cudaGetLastError();
}

const void* vector_add_address() { return reinterpret_cast<const void*>(&vector_add); }
const void* device_symbol() { return counters; }
const void* constant_symbol() { return weights; }

}  // namespace cudart_test
