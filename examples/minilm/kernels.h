// The model's operations on the device. Matrices are row-major float32 in device memory.
//
// Every function puts one kernel on `stream` and returns at once; it throws std::runtime_error
// where CUDA refuses the launch. Outputs must not overlap inputs except where said.
#pragma once

#include <cuda_runtime_api.h>

namespace minilm {

/// output[rows][outputs] = input[rows][inputs] * transposed(weight[outputs][inputs]) +
/// bias[outputs].
void launch_linear(cudaStream_t stream, const float* input, const float* weight, const float* bias,
                   float* output, int rows, int inputs, int outputs);

/// values[count] becomes gelu(values), in place.
void launch_gelu(cudaStream_t stream, float* values, int count);

/// output[rows][kHidden] = layer normalisation of input + residual, with scale[kHidden] and
/// shift[kHidden]. `residual` may be null: nothing is added. `output` may be `input` or `residual`.
void launch_add_layer_norm(cudaStream_t stream, const float* input, const float* residual,
                           const float* scale, const float* shift, float* output, int rows);

/// Multi-head self-attention: context[tokens][kHidden] from qkv[tokens][3 * kHidden].
///
/// The sentences lie one behind the other without padding. spans[tokens][2] holds, for each token,
/// the first token of its sentence and the one behind its last; a sentence has at most kMaxTokens.
void launch_attention(cudaStream_t stream, const float* qkv, const int* spans, float* context,
                      int tokens);

/// pooled[sentences][kHidden] = mean of hidden[token][kHidden] over the sentence's tokens, scaled
/// to length 1. Sentence i has the tokens from starts[i] to starts[i + 1], at least one.
void launch_mean_pool(cudaStream_t stream, const float* hidden, const int* starts, float* pooled,
                      int sentences);

}  // namespace minilm
