// What superpipe-layers does on the device. Buffers are device memory, in words of 8 bytes; every
// count of words is a multiple of kTileWords.
//
// Every function puts one kernel on `stream` and returns at once; it throws std::runtime_error
// where CUDA refuses the launch. `compute_us` microseconds is how long the kernel at least takes.
#pragma once

#include <cuda_runtime_api.h>

#include "examples/layers/arithmetic.h"

namespace layers {

/// partials[kBlocks] = sums that add up to the digest of weights[words].
void launch_read_layer(cudaStream_t stream, const Word* weights, Word words, unsigned compute_us,
                       Word* partials);

/// output[words] = next_activation() of input[words] with the digest that `partials` add up to.
/// `output` may be `input`.
void launch_activate(cudaStream_t stream, const Word* partials, const Word* input, Word* output,
                     Word words);

/// The arrays of a backward step.
struct GradientArrays {
  const Word* weights;     // [words]
  const Word* activation;  // [activation_words], used again and again along the weights
  const Word* upstream;    // [activation_words], likewise
  Word* gradient;          // [words]
  Word* partials;          // [kBlocks]
};

/// gradient = gradient_of() each weight, and partials = sums that add up to the gradient's digest.
void launch_layer_gradient(cudaStream_t stream, const GradientArrays& arrays, Word words,
                           Word activation_words, unsigned compute_us);

/// state[words] and weights[words] take one optimizer step with gradient[words].
void launch_update_layer(cudaStream_t stream, Word* weights, Word* state, const Word* gradient,
                         Word words);

}  // namespace layers
