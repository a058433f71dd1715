// The numbers of all-MiniLM-L6-v2, the layout of a layer on the device, and the arithmetic that
// device and host kernels share. Source of the numbers: the model's config.json.
#pragma once

#include <cmath>
#include <cstddef>

#ifdef __CUDACC__
#define MINILM_BOTH __host__ __device__
#else
#define MINILM_BOTH
#endif

namespace minilm {

constexpr int kLayers = 6;
constexpr int kHidden = 384;
constexpr int kHeads = 12;
constexpr int kHeadSize = kHidden / kHeads;
constexpr int kInner = 1536;
constexpr int kVocabulary = 30522;
constexpr int kPositions = 512;
constexpr int kMaxTokens = 256;  // of one sentence, with [CLS] and [SEP]; longer ones are cut
constexpr float kLayerNormEpsilon = 1e-12F;

// Where each weight of a layer starts in the layer's one allocation, in floats. Matrices are
// [outputs][inputs]. Query, key and value are one matrix, so that one product computes all three.
constexpr std::size_t kQkvWeight = 0;
constexpr std::size_t kQkvBias = kQkvWeight + 3UL * kHidden * kHidden;
constexpr std::size_t kProjectionWeight = kQkvBias + 3UL * kHidden;
constexpr std::size_t kProjectionBias = kProjectionWeight + 1UL * kHidden * kHidden;
constexpr std::size_t kAttentionNormScale = kProjectionBias + kHidden;
constexpr std::size_t kAttentionNormShift = kAttentionNormScale + kHidden;
constexpr std::size_t kUpWeight = kAttentionNormShift + kHidden;
constexpr std::size_t kUpBias = kUpWeight + 1UL * kInner * kHidden;
constexpr std::size_t kDownWeight = kUpBias + kInner;
constexpr std::size_t kDownBias = kDownWeight + 1UL * kHidden * kInner;
constexpr std::size_t kOutputNormScale = kDownBias + kHidden;
constexpr std::size_t kOutputNormShift = kOutputNormScale + kHidden;
constexpr std::size_t kLayerFloats = kOutputNormShift + kHidden;

/// The Gaussian error linear unit, exact form (Hendrycks and Gimpel, 2016): x times the standard
/// normal distribution function of x.
MINILM_BOTH inline float gelu(float x) {
  return 0.5F * x * (1.0F + erff(x * 0.70710678118654752F));
}

/// Where head `head` of token `token`'s query (`part` 0), key (1) or value (2) starts in the output
/// of the combined product, in floats; kHeadSize floats follow.
MINILM_BOTH inline std::size_t qkv_offset(int token, int part, int head) {
  return static_cast<std::size_t>(token) * (3 * kHidden) +
         static_cast<std::size_t>(part) * kHidden + static_cast<std::size_t>(head) * kHeadSize;
}

/// What attention scores are multiplied with: 1 / sqrt(kHeadSize).
constexpr float kScoreScale = 0.17677669529663687F;

/// The normalised element of a row with the given mean and variance (layer normalisation, Ba et
/// al., 2016).
MINILM_BOTH inline float layer_norm_element(float value, float mean, float inverse_deviation,
                                            float scale, float shift) {
  return (value - mean) * inverse_deviation * scale + shift;
}

}  // namespace minilm
