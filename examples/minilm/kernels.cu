#include "examples/launch.cuh"
#include "examples/minilm/kernels.h"
#include "examples/minilm/shape.h"

namespace minilm {

constexpr int kTile = 32;         // rows, outputs and inputs of linear's tile
constexpr int kTileThreads = 16;  // linear's block is this squared: each thread has 2 x 2 results
constexpr int kRowThreads = 128;  // a block of the kernels that work on one row
constexpr int kGeluThreads = 256;

/// The sum of `value` over the block, in every thread. `scratch` has kRowThreads floats.
/// REQUIRES: the block has kRowThreads threads, and all of them call.
__device__ inline float block_sum(float value, float* scratch) {
  const unsigned thread = threadIdx.x;
  __syncthreads();  // an earlier use of scratch has been read
  scratch[thread] = value;
  __syncthreads();
  for (unsigned half = kRowThreads / 2; half > 0; half /= 2) {
    if (thread < half) scratch[thread] += scratch[thread + half];
    __syncthreads();
  }
  return scratch[0];
}

/// The largest `value` of the block, in every thread; otherwise as block_sum.
__device__ inline float block_max(float value, float* scratch) {
  const unsigned thread = threadIdx.x;
  __syncthreads();
  scratch[thread] = value;
  __syncthreads();
  for (unsigned half = kRowThreads / 2; half > 0; half /= 2) {
    if (thread < half) scratch[thread] = fmaxf(scratch[thread], scratch[thread + half]);
    __syncthreads();
  }
  return scratch[0];
}

__global__ void linear(const float* input, const float* weight, const float* bias, float* output,
                       int rows, int inputs, int outputs) {
  __shared__ float input_tile[kTile][kTile + 1];  // padded: columns fall into different banks
  __shared__ float weight_tile[kTile][kTile + 1];
  const int x = static_cast<int>(threadIdx.x);
  const int y = static_cast<int>(threadIdx.y);
  const int first_row = static_cast<int>(blockIdx.y) * kTile;
  const int first_output = static_cast<int>(blockIdx.x) * kTile;
  float sum[2][2] = {};
  for (int start = 0; start < inputs; start += kTile) {
    for (int i = y * kTileThreads + x; i < kTile * kTile; i += kTileThreads * kTileThreads) {
      const int line = i / kTile;
      const int column = i % kTile;
      const int k = start + column;
      const int row = first_row + line;
      const int out = first_output + line;
      input_tile[line][column] =
          row < rows && k < inputs ? input[static_cast<size_t>(row) * inputs + k] : 0.0F;
      weight_tile[line][column] =
          out < outputs && k < inputs ? weight[static_cast<size_t>(out) * inputs + k] : 0.0F;
    }
    __syncthreads();
    for (int k = 0; k < kTile; ++k) {
      const float a[2] = {input_tile[y][k], input_tile[y + kTileThreads][k]};
      const float b[2] = {weight_tile[x][k], weight_tile[x + kTileThreads][k]};
      sum[0][0] += a[0] * b[0];
      sum[0][1] += a[0] * b[1];
      sum[1][0] += a[1] * b[0];
      sum[1][1] += a[1] * b[1];
    }
    __syncthreads();
  }
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 2; ++j) {
      const int row = first_row + y + i * kTileThreads;
      const int out = first_output + x + j * kTileThreads;
      if (row < rows && out < outputs) {
        output[static_cast<size_t>(row) * outputs + out] = sum[i][j] + bias[out];
      }
    }
  }
}

__global__ void gelu_in_place(float* values, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) values[i] = gelu(values[i]);
}

__global__ void add_layer_norm(const float* input, const float* residual, const float* scale,
                               const float* shift, float* output) {
  __shared__ float scratch[kRowThreads];
  constexpr int kOwned = kHidden / kRowThreads;
  static_assert(kOwned * kRowThreads == kHidden, "every thread owns the same number of elements");
  const size_t row = static_cast<size_t>(blockIdx.x) * kHidden;
  const int thread = static_cast<int>(threadIdx.x);
  float value[kOwned];
  float sum = 0;
  for (int i = 0; i < kOwned; ++i) {
    const int column = thread + i * kRowThreads;
    value[i] = input[row + column] + (residual != nullptr ? residual[row + column] : 0.0F);
    sum += value[i];
  }
  const float mean = block_sum(sum, scratch) / kHidden;
  float squares = 0;
  for (int i = 0; i < kOwned; ++i) squares += (value[i] - mean) * (value[i] - mean);
  const float variance = block_sum(squares, scratch) / kHidden;
  const float inverse_deviation = 1.0F / sqrtf(variance + kLayerNormEpsilon);
  for (int i = 0; i < kOwned; ++i) {
    const int column = thread + i * kRowThreads;
    output[row + column] =
        layer_norm_element(value[i], mean, inverse_deviation, scale[column], shift[column]);
  }
}

__global__ void attention(const float* qkv, const int* spans, float* context) {
  __shared__ float scores[kMaxTokens];
  __shared__ float scratch[kRowThreads];
  const int token = static_cast<int>(blockIdx.x);
  const int head = static_cast<int>(blockIdx.y);
  const int thread = static_cast<int>(threadIdx.x);
  const int first = spans[2 * token];
  const int length = spans[2 * token + 1] - first;
  const float* const query = qkv + qkv_offset(token, 0, head);
  float largest = -INFINITY;
  for (int other = thread; other < length; other += kRowThreads) {
    const float* const key = qkv + qkv_offset(first + other, 1, head);
    float score = 0;
    for (int i = 0; i < kHeadSize; ++i) score += query[i] * key[i];
    scores[other] = score * kScoreScale;
    largest = fmaxf(largest, scores[other]);
  }
  largest = block_max(largest, scratch);
  float sum = 0;
  for (int other = thread; other < length; other += kRowThreads) {
    scores[other] = expf(scores[other] - largest);
    sum += scores[other];
  }
  sum = block_sum(sum, scratch);  // also makes every thread's scores visible to all
  if (thread < kHeadSize) {
    float weighted = 0;
    for (int other = 0; other < length; ++other) {
      weighted += scores[other] * qkv[qkv_offset(first + other, 2, head) + thread];
    }
    context[static_cast<size_t>(token) * kHidden + head * kHeadSize + thread] = weighted / sum;
  }
}

__global__ void mean_pool(const float* hidden, const int* starts, float* pooled) {
  __shared__ float scratch[kRowThreads];
  constexpr int kOwned = kHidden / kRowThreads;
  const int sentence = static_cast<int>(blockIdx.x);
  const int thread = static_cast<int>(threadIdx.x);
  const int first = starts[sentence];
  const int last = starts[sentence + 1];
  float mean[kOwned];
  float squares = 0;
  for (int i = 0; i < kOwned; ++i) {
    float sum = 0;
    for (int token = first; token < last; ++token) {
      sum += hidden[static_cast<size_t>(token) * kHidden + thread + i * kRowThreads];
    }
    mean[i] = sum / static_cast<float>(last - first);
    squares += mean[i] * mean[i];
  }
  const float length = sqrtf(block_sum(squares, scratch));
  for (int i = 0; i < kOwned; ++i) {
    pooled[static_cast<size_t>(sentence) * kHidden + thread + i * kRowThreads] =
        mean[i] / fmaxf(length, 1e-12F);
  }
}

namespace {

unsigned blocks(int count, int per_block) {
  return static_cast<unsigned>((count + per_block - 1) / per_block);
}

}  // namespace

void launch_linear(cudaStream_t stream, const float* input, const float* weight, const float* bias,
                   float* output, int rows, int inputs, int outputs) {
  examples::launch(linear, dim3(blocks(outputs, kTile), blocks(rows, kTile)),
                   dim3(kTileThreads, kTileThreads), stream, input, weight, bias, output, rows,
                   inputs, outputs);
}

void launch_gelu(cudaStream_t stream, float* values, int count) {
  examples::launch(gelu_in_place, dim3(blocks(count, kGeluThreads)), dim3(kGeluThreads), stream,
                   values, count);
}

void launch_add_layer_norm(cudaStream_t stream, const float* input, const float* residual,
                           const float* scale, const float* shift, float* output, int rows) {
  examples::launch(add_layer_norm, dim3(static_cast<unsigned>(rows)), dim3(kRowThreads), stream,
                   input, residual, scale, shift, output);
}

void launch_attention(cudaStream_t stream, const float* qkv, const int* spans, float* context,
                      int tokens) {
  examples::launch(attention, dim3(static_cast<unsigned>(tokens), kHeads), dim3(kRowThreads),
                   stream, qkv, spans, context);
}

void launch_mean_pool(cudaStream_t stream, const float* hidden, const int* starts, float* pooled,
                      int sentences) {
  examples::launch(mean_pool, dim3(static_cast<unsigned>(sentences)), dim3(kRowThreads), stream,
                   hidden, starts, pooled);
}

}  // namespace minilm
