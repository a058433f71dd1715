// The kernels of kernels.cu, computed on the host for simgpu: the same results up to the order of
// floating-point additions, fast enough that a forward pass of a few sentences takes well below a
// second on one core.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>

#include "examples/minilm/shape.h"
#include "tools/simgpu/kernel_plugin.h"

namespace minilm {
namespace {

// Eight floats; the compiler uses whatever vector registers the function's target has.
using Vector [[gnu::vector_size(32)]] = float;
constexpr int kWidth = 8;

#if defined(__x86_64__)
#define MINILM_AVX2 1
#endif

/// Parameter `index` of a launch.
template <typename T>
T argument(const SimgpuLaunch* launch, std::size_t index) {
  T value;
  std::memcpy(&value, launch->arguments[index], sizeof value);
  return value;
}

struct Linear {
  const float* input;
  const float* weight;
  const float* bias;
  float* output;
  int rows;
  int inputs;
  int outputs;

  explicit Linear(const SimgpuLaunch* launch)
      : input(argument<const float*>(launch, 0)),
        weight(argument<const float*>(launch, 1)),
        bias(argument<const float*>(launch, 2)),
        output(argument<float*>(launch, 3)),
        rows(argument<int>(launch, 4)),
        inputs(argument<int>(launch, 5)),
        outputs(argument<int>(launch, 6)) {}
};

/// kRows x kOutputs results of a linear operation, from (`row`, `out`) on: the sums stay in
/// registers while the vectors of both matrices are read once.
template <int kRows, int kOutputs>
[[gnu::always_inline]] inline void linear_tile(const Linear& of, int row, int out) {
  const auto stride = static_cast<std::size_t>(of.inputs);
  const float* const input = of.input + static_cast<std::size_t>(row) * stride;
  const float* const weight = of.weight + static_cast<std::size_t>(out) * stride;
  Vector sums[kRows][kOutputs] = {};
  int k = 0;
  for (; k + kWidth <= of.inputs; k += kWidth) {
    Vector weights[kOutputs];
    for (int j = 0; j < kOutputs; ++j) {
      std::memcpy(&weights[j], weight + static_cast<std::size_t>(j) * stride + k, sizeof(Vector));
    }
    for (int i = 0; i < kRows; ++i) {
      Vector inputs;
      std::memcpy(&inputs, input + static_cast<std::size_t>(i) * stride + k, sizeof inputs);
      for (int j = 0; j < kOutputs; ++j) sums[i][j] += inputs * weights[j];
    }
  }
  for (int i = 0; i < kRows; ++i) {
    for (int j = 0; j < kOutputs; ++j) {
      float sum = of.bias[out + j];
      for (int lane = 0; lane < kWidth; ++lane) sum += sums[i][j][lane];
      for (int rest = k; rest < of.inputs; ++rest) {
        sum += input[static_cast<std::size_t>(i) * stride + rest] *
               weight[static_cast<std::size_t>(j) * stride + rest];
      }
      of.output[static_cast<std::size_t>(row + i) * of.outputs + out + j] = sum;
    }
  }
}

[[gnu::always_inline]] inline void linear_all(const Linear& of) {
  constexpr int kRows = 4;
  constexpr int kOutputs = 3;
  int out = 0;
  for (; out + kOutputs <= of.outputs; out += kOutputs) {
    int row = 0;
    for (; row + kRows <= of.rows; row += kRows) linear_tile<kRows, kOutputs>(of, row, out);
    for (; row < of.rows; ++row) linear_tile<1, kOutputs>(of, row, out);
  }
  for (; out < of.outputs; ++out) {
    for (int row = 0; row < of.rows; ++row) linear_tile<1, 1>(of, row, out);
  }
}

#ifdef MINILM_AVX2
[[gnu::target("avx2,fma")]] void linear_avx2(const Linear& of) { linear_all(of); }
#endif

void linear(const SimgpuLaunch* launch) {
  const Linear of(launch);
#ifdef MINILM_AVX2
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return linear_avx2(of);
#endif
  linear_all(of);
}

void gelu_in_place(const SimgpuLaunch* launch) {
  auto* const values = argument<float*>(launch, 0);
  const int count = argument<int>(launch, 1);
  for (int i = 0; i < count; ++i) values[i] = gelu(values[i]);
}

void add_layer_norm(const SimgpuLaunch* launch) {
  const auto* const input = argument<const float*>(launch, 0);
  const auto* const residual = argument<const float*>(launch, 1);
  const auto* const scale = argument<const float*>(launch, 2);
  const auto* const shift = argument<const float*>(launch, 3);
  auto* const output = argument<float*>(launch, 4);
  for (std::size_t row = 0; row < launch->grid[0]; ++row) {
    const std::size_t start = row * kHidden;
    float values[kHidden];
    float sum = 0;
    for (std::size_t i = 0; i < kHidden; ++i) {
      values[i] = input[start + i] + (residual != nullptr ? residual[start + i] : 0.0F);
      sum += values[i];
    }
    const float mean = sum / kHidden;
    float squares = 0;
    for (const float value : values) squares += (value - mean) * (value - mean);
    const float inverse_deviation = 1.0F / std::sqrt(squares / kHidden + kLayerNormEpsilon);
    for (std::size_t i = 0; i < kHidden; ++i) {
      output[start + i] =
          layer_norm_element(values[i], mean, inverse_deviation, scale[i], shift[i]);
    }
  }
}

void attend(const float* qkv, int token, int head, int first, int length, float* context) {
  const float* const query = qkv + qkv_offset(token, 0, head);
  float scores[kMaxTokens];
  float largest = -std::numeric_limits<float>::infinity();
  for (int other = 0; other < length; ++other) {
    const float* const key = qkv + qkv_offset(first + other, 1, head);
    float score = 0;
    for (int i = 0; i < kHeadSize; ++i) score += query[i] * key[i];
    scores[other] = score * kScoreScale;
    largest = std::max(largest, scores[other]);
  }
  float sum = 0;
  float weighted[kHeadSize] = {};
  for (int other = 0; other < length; ++other) {
    const float share = std::exp(scores[other] - largest);
    const float* const value = qkv + qkv_offset(first + other, 2, head);
    sum += share;
    for (int i = 0; i < kHeadSize; ++i) weighted[i] += share * value[i];
  }
  float* const output = context + static_cast<std::size_t>(token) * kHidden + head * kHeadSize;
  for (int i = 0; i < kHeadSize; ++i) output[i] = weighted[i] / sum;
}

void attention(const SimgpuLaunch* launch) {
  const auto* const qkv = argument<const float*>(launch, 0);
  const auto* const spans = argument<const int*>(launch, 1);
  auto* const context = argument<float*>(launch, 2);
  for (int token = 0; token < static_cast<int>(launch->grid[0]); ++token) {
    const int first = spans[2 * token];
    const int length = spans[2 * token + 1] - first;
    for (int head = 0; head < static_cast<int>(launch->grid[1]); ++head) {
      attend(qkv, token, head, first, length, context);
    }
  }
}

void mean_pool(const SimgpuLaunch* launch) {
  const auto* const hidden = argument<const float*>(launch, 0);
  const auto* const starts = argument<const int*>(launch, 1);
  auto* const pooled = argument<float*>(launch, 2);
  for (std::size_t sentence = 0; sentence < launch->grid[0]; ++sentence) {
    float* const row = pooled + sentence * kHidden;
    std::fill(row, row + kHidden, 0.0F);
    for (int token = starts[sentence]; token < starts[sentence + 1]; ++token) {
      for (std::size_t i = 0; i < kHidden; ++i) {
        row[i] += hidden[static_cast<std::size_t>(token) * kHidden + i];
      }
    }
    const auto tokens = static_cast<float>(starts[sentence + 1] - starts[sentence]);
    float squares = 0;
    for (std::size_t i = 0; i < kHidden; ++i) {
      row[i] /= tokens;
      squares += row[i] * row[i];
    }
    const float length = std::max(std::sqrt(squares), 1e-12F);
    for (std::size_t i = 0; i < kHidden; ++i) row[i] /= length;
  }
}

// The modelled times are no GPU's: they are what one core needs, with a margin, so that the host
// keeps up with its own model and a measurement on simgpu stays valid.
constexpr double kProductsPerUs = 4000;  // multiply-adds of a linear operation
constexpr double kElementsPerUs = 50;    // elements of gelu, the slowest of the others
constexpr double kLaunchUs = 20;

double linear_us(const SimgpuLaunch* launch) {
  const Linear of(launch);
  return kLaunchUs + static_cast<double>(of.rows) * of.inputs * of.outputs / kProductsPerUs;
}

double gelu_us(const SimgpuLaunch* launch) {
  return kLaunchUs + argument<int>(launch, 1) / kElementsPerUs;
}

double rows_us(const SimgpuLaunch* launch) {
  return kLaunchUs + static_cast<double>(launch->grid[0]) * kHidden / (4 * kElementsPerUs);
}

/// The lengths of the sentences lie in device memory, so the number of tokens bounds them.
double attention_us(const SimgpuLaunch* launch) {
  const double tokens = launch->grid[0];
  return kLaunchUs + tokens * std::min<double>(tokens, kMaxTokens) * kHidden / (kProductsPerUs / 4);
}

constexpr SimgpuKernel kKernels[] = {
    {"_ZN6minilm6linearEPKfS1_S1_Pfiii", linear, 0, linear_us},
    {"_ZN6minilm13gelu_in_placeEPfi", gelu_in_place, 0, gelu_us},
    {"_ZN6minilm14add_layer_normEPKfS1_S1_S1_Pf", add_layer_norm, 0, rows_us},
    {"_ZN6minilm9attentionEPKfPKiPf", attention, 0, attention_us},
    {"_ZN6minilm9mean_poolEPKfPKiPf", mean_pool, 0, rows_us},
};

}  // namespace
}  // namespace minilm

const SimgpuKernel* simgpu_kernels(size_t* count) {
  *count = std::size(minilm::kKernels);
  return minilm::kKernels;
}
