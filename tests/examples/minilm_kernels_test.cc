// Each kernel of minilm against its definition in double precision: the device code, executed
// thread by thread on the host, and the simgpu plugin.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <ostream>
#include <random>
#include <vector>

#include "examples/minilm/kernels.h"
#include "examples/minilm/shape.h"

namespace minilm {
namespace {

enum class Executor { kThreads, kPlugin };

void PrintTo(Executor executor, std::ostream* out) {
  *out << (executor == Executor::kThreads ? "DeviceCode" : "SimgpuPlugin");
}

class Kernels : public ::testing::TestWithParam<Executor> {
 protected:
  void SetUp() override {
    if (GetParam() == Executor::kPlugin) {
      ASSERT_EQ(setenv("EMULATION_PLUGIN", MINILM_PLUGIN, 1), 0);
    } else {
      ASSERT_EQ(unsetenv("EMULATION_PLUGIN"), 0);
    }
  }

  std::vector<float> random(std::size_t count) {
    std::vector<float> values(count);
    for (float& value : values) value = distribution_(generator_);
    return values;
  }

 private:
  std::mt19937 generator_{42};
  std::uniform_real_distribution<float> distribution_{-1, 1};
};

constexpr float kUntouched = -77;  // around outputs, to notice a write past their end

TEST_P(Kernels, LinearMultipliesAndAddsTheBias) {
  struct Shape {
    int rows;
    int inputs;
    int outputs;
  };
  // One of everything, tiles that are full, and tiles that are not.
  for (const auto& [rows, inputs, outputs] : {Shape{1, 1, 1}, Shape{32, 32, 32}, Shape{33, 40, 65},
                                              Shape{7, 100, 31}, Shape{5, 384, 4}}) {
    const auto input = random(1UL * rows * inputs);
    const auto weight = random(1UL * outputs * inputs);
    const auto bias = random(outputs);
    std::vector<float> output(1UL * rows * outputs + 1, kUntouched);
    launch_linear(nullptr, input.data(), weight.data(), bias.data(), output.data(), rows, inputs,
                  outputs);
    for (int row = 0; row < rows; ++row) {
      for (int out = 0; out < outputs; ++out) {
        double expected = bias[out];
        for (int k = 0; k < inputs; ++k) {
          expected += static_cast<double>(input[row * inputs + k]) * weight[out * inputs + k];
        }
        ASSERT_NEAR(output[row * outputs + out], expected, 1e-4)
            << rows << " x " << inputs << " x " << outputs << " at " << row << ", " << out;
      }
    }
    ASSERT_EQ(output.back(), kUntouched);
  }
}

TEST_P(Kernels, GeluFollowsTheNormalDistribution) {
  for (const int count : {1, 256, 300}) {
    auto values = random(count);
    for (float& value : values) value *= 5;
    const auto before = values;
    values.push_back(kUntouched);
    launch_gelu(nullptr, values.data(), count);
    for (int i = 0; i < count; ++i) {
      const double x = before[i];
      ASSERT_NEAR(values[i], x * 0.5 * std::erfc(-x / std::sqrt(2.0)), 1e-6);
    }
    ASSERT_EQ(values.back(), kUntouched);
  }
}

TEST_P(Kernels, AddLayerNormNormalisesTheSum) {
  constexpr int kRows = 3;
  const auto input = random(1UL * kRows * kHidden);
  const auto residual = random(1UL * kRows * kHidden);
  const auto scale = random(kHidden);
  const auto shift = random(kHidden);
  for (const bool with_residual : {true, false}) {
    std::vector<float> output = residual;  // in place, as the encoder does it
    const float* const added = with_residual ? output.data() : nullptr;
    launch_add_layer_norm(nullptr, input.data(), added, scale.data(), shift.data(), output.data(),
                          kRows);
    for (int row = 0; row < kRows; ++row) {
      std::vector<double> sums(kHidden);
      double mean = 0;
      for (int i = 0; i < kHidden; ++i) {
        sums[i] = input[row * kHidden + i] + (with_residual ? residual[row * kHidden + i] : 0.0);
        mean += sums[i] / kHidden;
      }
      double variance = 0;
      for (const double sum : sums) variance += (sum - mean) * (sum - mean) / kHidden;
      for (int i = 0; i < kHidden; ++i) {
        const double expected =
            (sums[i] - mean) / std::sqrt(variance + 1e-12) * scale[i] + shift[i];
        ASSERT_NEAR(output[row * kHidden + i], expected, 1e-5);
      }
    }
  }
}

TEST_P(Kernels, AttentionLooksAtItsOwnSentenceOnly) {
  // The first tokens belong to a sentence longer than a block has threads, the others to a short
  // one. Only some of the first sentence's tokens are computed: that is enough, and quick.
  constexpr int kLong = 140;
  constexpr int kComputed = 3;
  const auto qkv = random((kLong + 2UL) * 3 * kHidden);
  for (const int first : {0, kLong}) {
    const int length = first == 0 ? kLong : 2;
    const int computed = first == 0 ? kComputed : 2;
    // The kernel numbers tokens from the start of its arrays.
    const float* const base = qkv.data() + 3UL * kHidden * first;
    std::vector<int> spans;
    for (int i = 0; i < computed; ++i) spans.insert(spans.end(), {0, length});
    std::vector<float> context(1UL * computed * kHidden + 1, kUntouched);
    launch_attention(nullptr, base, spans.data(), context.data(), computed);
    for (int token = 0; token < computed; ++token) {
      for (int head = 0; head < kHeads; ++head) {
        std::vector<double> shares(length);
        double total = 0;
        for (int other = 0; other < length; ++other) {
          double score = 0;
          for (int i = 0; i < kHeadSize; ++i) {
            score += static_cast<double>(base[qkv_offset(token, 0, head) + i]) *
                     base[qkv_offset(other, 1, head) + i];
          }
          shares[other] = std::exp(score / std::sqrt(static_cast<double>(kHeadSize)));
          total += shares[other];
        }
        for (int i = 0; i < kHeadSize; ++i) {
          double expected = 0;
          for (int other = 0; other < length; ++other) {
            expected += shares[other] / total * base[qkv_offset(other, 2, head) + i];
          }
          ASSERT_NEAR(context[token * kHidden + head * kHeadSize + i], expected, 1e-5);
        }
      }
    }
    ASSERT_EQ(context.back(), kUntouched);
  }
}

TEST_P(Kernels, AttentionFollowsEachTokensSpan) {
  const auto qkv = random(3UL * 3 * kHidden);
  const std::vector<int> spans = {0, 1, 1, 3, 1, 3};
  std::vector<float> context(3UL * kHidden);
  launch_attention(nullptr, qkv.data(), spans.data(), context.data(), 3);
  // A sentence of one token gives that token's value.
  for (int i = 0; i < kHidden; ++i) {
    ASSERT_NEAR(context[i], qkv[qkv_offset(0, 2, 0) + i], 1e-6);
  }
  // Token 0 has no influence on the other sentence.
  auto changed = qkv;
  std::fill(changed.begin(), changed.begin() + 3L * kHidden, 9.0F);
  std::vector<float> again(3UL * kHidden);
  launch_attention(nullptr, changed.data(), spans.data(), again.data(), 3);
  EXPECT_TRUE(std::equal(context.begin() + kHidden, context.end(), again.begin() + kHidden));
}

TEST_P(Kernels, MeanPoolGivesMeansOfLengthOne) {
  const auto hidden = random(6UL * kHidden);
  const std::vector<int> starts = {0, 1, 6};
  std::vector<float> pooled(2UL * kHidden + 1, kUntouched);
  launch_mean_pool(nullptr, hidden.data(), starts.data(), pooled.data(), 2);
  for (int sentence = 0; sentence < 2; ++sentence) {
    std::vector<double> mean(kHidden);
    double squares = 0;
    for (int i = 0; i < kHidden; ++i) {
      for (int token = starts[sentence]; token < starts[sentence + 1]; ++token) {
        mean[i] += hidden[token * kHidden + i];
      }
      squares += mean[i] * mean[i];
    }
    for (int i = 0; i < kHidden; ++i) {
      ASSERT_NEAR(pooled[sentence * kHidden + i], mean[i] / std::sqrt(squares), 1e-6);
    }
  }
  ASSERT_EQ(pooled.back(), kUntouched);
}

INSTANTIATE_TEST_SUITE_P(Minilm, Kernels, ::testing::Values(Executor::kThreads, Executor::kPlugin),
                         ::testing::PrintToStringParamName());

}  // namespace
}  // namespace minilm
