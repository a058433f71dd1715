#include "examples/launch.cuh"
#include "examples/layers/kernels.h"

namespace layers {

constexpr int kThreads = 256;

/// Nanoseconds of a clock that all blocks share; 0 where the kernels run on the host.
__device__ inline Word device_time() {
  Word nanoseconds = 0;
#ifdef __CUDA_ARCH__
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(nanoseconds));
#endif
  return nanoseconds;
}

/// Keeps the block on the device until device_time() reaches `deadline`.
__device__ inline void occupy_until(Word deadline) {
#ifdef __CUDA_ARCH__
  while (device_time() < deadline) __nanosleep(500);
#endif
  static_cast<void>(deadline);
}

/// Adds up `sum` over the block and lets one thread write it to `*result`.
__device__ inline void store_block_sum(Word sum, Word* result) {
  __shared__ Word scratch[kThreads];
  scratch[threadIdx.x] = sum;
  __syncthreads();
  for (unsigned half = kThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) scratch[threadIdx.x] += scratch[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) *result = scratch[0];
}

/// The digest that partials add up to. Every thread adds them up itself: they are few and cached.
__device__ inline Word digest_of(const Word* partials) {
  Word digest = 0;
  for (unsigned i = 0; i < kBlocks; ++i) digest += partials[i];
  return digest;
}

__global__ void read_layer(const Word* weights, Word words, unsigned compute_us, Word* partials) {
  const Word deadline = device_time() + compute_us * Word{1000};
  Word sum = 0;
  for (Word tile = blockIdx.x; tile < words / kTileWords; tile += gridDim.x) {
    for (Word i = threadIdx.x; i < kTileWords; i += kThreads) {
      const Word index = tile * kTileWords + i;
      sum += weights[index] * coefficient(index);
    }
  }
  store_block_sum(sum, &partials[blockIdx.x]);
  occupy_until(deadline);
}

__global__ void activate(const Word* partials, const Word* input, Word* output, Word words) {
  const Word digest = digest_of(partials);
  const Word stride = Word{gridDim.x} * kThreads;
  for (Word i = Word{blockIdx.x} * kThreads + threadIdx.x; i < words; i += stride) {
    output[i] = next_activation(input[i], digest, i);
  }
}

__global__ void layer_gradient(const Word* weights, const Word* activation, const Word* upstream,
                               Word* gradient, Word* partials, Word words, Word activation_words,
                               unsigned compute_us) {
  const Word deadline = device_time() + compute_us * Word{1000};
  Word sum = 0;
  for (Word tile = blockIdx.x; tile < words / kTileWords; tile += gridDim.x) {
    for (Word i = threadIdx.x; i < kTileWords; i += kThreads) {
      const Word index = tile * kTileWords + i;
      const Word place = index % activation_words;
      const Word value = gradient_of(weights[index], activation[place], upstream[place]);
      gradient[index] = value;
      sum += value * coefficient(index);
    }
  }
  store_block_sum(sum, &partials[blockIdx.x]);
  occupy_until(deadline);
}

__global__ void update_layer(Word* weights, Word* state, const Word* gradient, Word words) {
  const Word stride = Word{gridDim.x} * kThreads;
  for (Word i = Word{blockIdx.x} * kThreads + threadIdx.x; i < words; i += stride) {
    state[i] = next_state(state[i], gradient[i]);
    weights[i] = next_weight(weights[i], state[i]);
  }
}

void launch_read_layer(cudaStream_t stream, const Word* weights, Word words, unsigned compute_us,
                       Word* partials) {
  examples::launch(read_layer, dim3(kBlocks), dim3(kThreads), stream, weights, words, compute_us,
                   partials);
}

void launch_activate(cudaStream_t stream, const Word* partials, const Word* input, Word* output,
                     Word words) {
  examples::launch(activate, dim3(kBlocks), dim3(kThreads), stream, partials, input, output, words);
}

void launch_layer_gradient(cudaStream_t stream, const GradientArrays& arrays, Word words,
                           Word activation_words, unsigned compute_us) {
  examples::launch(layer_gradient, dim3(kBlocks), dim3(kThreads), stream, arrays.weights,
                   arrays.activation, arrays.upstream, arrays.gradient, arrays.partials, words,
                   activation_words, compute_us);
}

void launch_update_layer(cudaStream_t stream, Word* weights, Word* state, const Word* gradient,
                         Word words) {
  examples::launch(update_layer, dim3(kBlocks), dim3(kThreads), stream, weights, state, gradient,
                   words);
}

}  // namespace layers
