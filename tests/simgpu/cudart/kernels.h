#pragma once

#include <cuda_runtime.h>

namespace cudart_test {

/// A kernel parameter that is passed by value and holds pointers between other fields.
struct ScaleParameters {
  float factor;
  int count;
  const float* in;
  char tag;
  float* out;
};

/// out[i] = a[i] + b[i], launched with <<<>>> on `stream`. @return what cudaGetLastError answers
/// after it.
cudaError_t launch_vector_add(const float* a, const float* b, float* out, int count,
                              cudaStream_t stream);

/// parameters.out[i] = parameters.in[i] * parameters.factor + bias.
cudaError_t launch_scale(ScaleParameters parameters, double bias, cudaStream_t stream);

/// A launch with `threads` threads a block, whatever the device says to that.
cudaError_t launch_with_block(int threads);

/// Host address of the vector-add kernel, as the runtime API's functions take it.
const void* vector_add_address();

/// Host addresses of a __device__ array of four ints and of a __constant__ array of eight floats.
const void* device_symbol();
const void* constant_symbol();

}  // namespace cudart_test
