// The calls of cuDNN beside its graph API: where a network's weights lie, and what an execution
// reads and writes.

#include "tools/simgpu/cudnn/legacy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "tests/simgpu/cudnn/dnn_fixture.h"

// The binary interface, as far as it is used here; NVIDIA's header is not among the toolkit's.
extern "C" {
int cudnnCreateTensorDescriptor(void** tensor);
int cudnnDestroyTensorDescriptor(void* tensor);
int cudnnSetTensor4dDescriptor(void* tensor, int format, int type, int n, int c, int h, int w);
int cudnnGetTensorNdDescriptor(const void* tensor, int room, int* type, int* count, int* extents,
                               int* strides);
int cudnnBatchNormalizationForwardTrainingEx(
    void* handle, int mode, int operations, const void* alpha, const void* beta, const void* x_desc,
    const void* x, const void* z_desc, const void* z, const void* y_desc, void* y,
    const void* scale_desc, const void* scale, const void* bias, double average, void* mean,
    void* variance, double epsilon, void* saved_mean, void* saved_variance, const void* activation,
    void* workspace, size_t workspace_bytes, void* reserve, size_t reserve_bytes);
int cudnnBatchNormalizationForwardInference(void* handle, int mode, const void* alpha,
                                            const void* beta, const void* x_desc, const void* x,
                                            const void* y_desc, void* y, const void* scale_desc,
                                            const void* scale, const void* bias, const void* mean,
                                            const void* variance, double epsilon);
int cudnnBatchNormalizationBackwardEx(
    void* handle, int mode, int operations, const void* data_alpha, const void* data_beta,
    const void* weight_alpha, const void* weight_beta, const void* x_desc, const void* x,
    const void* y_desc, const void* y, const void* dy_desc, const void* dy, const void* dz_desc,
    void* dz, const void* dx_desc, void* dx, const void* dscale_desc, const void* scale,
    const void* bias, void* dscale, void* dbias, double epsilon, const void* saved_mean,
    const void* saved_variance, const void* activation, void* workspace, size_t workspace_bytes,
    void* reserve, size_t reserve_bytes);
int cudnnCreateRNNDescriptor(void** network);
int cudnnDestroyRNNDescriptor(void* network);
int cudnnSetRNNDescriptor_v8(void* network, int algorithm, int cell, int bias, int direction,
                             int input_mode, int type, int precision, int math, int32_t input,
                             int32_t hidden, int32_t projected, int32_t layers, const void* dropout,
                             uint32_t flags);
int cudnnGetRNNDescriptor_v8(const void* network, int* algorithm, int* cell, int* bias,
                             int* direction, int* input_mode, int* type, int* precision, int* math,
                             int32_t* input, int32_t* hidden, int32_t* projected, int32_t* layers,
                             const void** dropout, uint32_t* flags);
int cudnnCreateRNNDataDescriptor(void** sequences);
int cudnnDestroyRNNDataDescriptor(void* sequences);
int cudnnSetRNNDataDescriptor(void* sequences, int type, int layout, int longest, int batch,
                              int vector, const int* lengths, void* padding);
int cudnnRNNForward(void* handle, const void* network, int mode, const int32_t* lengths,
                    const void* x_desc, const void* x, const void* y_desc, void* y,
                    const void* h_desc, const void* hx, void* hy, const void* c_desc,
                    const void* cx, void* cy, size_t weight_size, const void* weights,
                    size_t work_size, void* work, size_t reserve_size, void* reserve);
int cudnnRNNBackwardData_v8(void* handle, const void* network, const int32_t* lengths,
                            const void* y_desc, const void* y, const void* dy, const void* x_desc,
                            void* dx, const void* h_desc, const void* hx, const void* dhy,
                            void* dhx, const void* c_desc, const void* cx, const void* dcy,
                            void* dcx, size_t weight_size, const void* weights, size_t work_size,
                            void* work, size_t reserve_size, void* reserve);
int cudnnGetRNNWeightSpaceSize(void* handle, void* network, size_t* bytes);
int cudnnGetRNNWeightParams(void* handle, void* network, int32_t layer, size_t size,
                            const void* weights, int32_t part, void* matrix_desc, void** matrix,
                            void* bias_desc, void** bias);
}

namespace cudnn_test {
namespace {

using simgpu::cudnn::bias_of;
using simgpu::cudnn::matrix_of;
using simgpu::cudnn::Network;
using simgpu::cudnn::weight_bytes;
using simgpu::cudnn::WeightPart;

enum Cell : int { kTanh = 1, kLstm = 2, kGru = 3 };
constexpr int kNoBias = 0;
constexpr int kDoubleBias = 2;

Network network_of(int cell, int bias, bool is_bidirectional, int projected) {
  Network network;
  network.cell = cell;
  network.bias = bias;
  network.is_bidirectional = is_bidirectional;
  network.input = 6;
  network.hidden = 8;
  network.projected = projected;
  network.layers = 3;
  return network;
}

/// The parts of all weights as (begin, end) in bytes.
std::vector<std::pair<std::size_t, std::size_t>> parts_of(const Network& network, int parts) {
  std::vector<std::pair<std::size_t, std::size_t>> list;
  const int pseudo_layers = network.layers * (network.is_bidirectional ? 2 : 1);
  for (int layer = 0; layer < pseudo_layers; ++layer) {
    for (int part = 0; part < parts; ++part) {
      for (const WeightPart& found :
           {matrix_of(network, layer, part), bias_of(network, layer, part)}) {
        const auto numbers = static_cast<std::size_t>(found.rows * found.columns);
        if (numbers > 0) list.emplace_back(found.offset, found.offset + 4 * numbers);
      }
    }
  }
  std::ranges::sort(list);
  return list;
}

TEST(Weights, OfANetworkLieSideBySideAndFillItsSpace) {
  for (const auto& [cell, parts] : {std::pair{kTanh, 2}, {kGru, 6}, {kLstm, 8}}) {
    for (const int bias : {kNoBias, kDoubleBias}) {
      for (const bool is_bidirectional : {false, true}) {
        const Network described = network_of(cell, bias, is_bidirectional, 8);
        std::size_t end = 0;
        for (const auto& [first, last] : parts_of(described, parts)) {
          EXPECT_EQ(first, end) << cell << bias << is_bidirectional;
          end = last;
        }
        EXPECT_EQ(end, weight_bytes(described)) << cell << bias << is_bidirectional;
      }
    }
  }
}

TEST(Weights, HaveTheShapesOfTheirLayers) {
  const Network both = network_of(kLstm, kDoubleBias, true, 8);
  const auto shape = [](const WeightPart& part) { return std::pair{part.rows, part.columns}; };
  EXPECT_EQ(shape(matrix_of(both, 0, 0)), std::pair(8, 6)) << "meets the input";
  EXPECT_EQ(shape(matrix_of(both, 1, 0)), std::pair(8, 6)) << "as does the other direction";
  EXPECT_EQ(shape(matrix_of(both, 2, 0)), std::pair(8, 16)) << "meets what both directions said";
  EXPECT_EQ(shape(matrix_of(both, 2, 7)), std::pair(8, 8)) << "meets what it said before";
  EXPECT_EQ(shape(bias_of(both, 2, 7)), std::pair(8, 1));
  EXPECT_EQ(shape(matrix_of(both, 6, 0)), std::pair(0, 0)) << "there is no such layer";
  EXPECT_EQ(shape(matrix_of(both, 0, 8)), std::pair(0, 0)) << "nothing is projected";
  const Network projected = network_of(kLstm, kDoubleBias, false, 5);
  EXPECT_EQ(shape(matrix_of(projected, 0, 8)), std::pair(5, 8));
  EXPECT_EQ(shape(matrix_of(projected, 1, 0)), std::pair(8, 5));
  EXPECT_EQ(shape(bias_of(projected, 0, 8)), std::pair(0, 0));
}

class LegacyTest : public DnnFixture {
 protected:
  void SetUp() override {
    DnnFixture::SetUp();
    ASSERT_EQ(cudnnCreateTensorDescriptor(&tensor_), kSuccess);
  }
  void TearDown() override {
    EXPECT_EQ(cudnnDestroyTensorDescriptor(tensor_), kSuccess);
    DnnFixture::TearDown();
  }
  /// How many numbers of an array of -1 have been written, which are the first ones.
  std::size_t written(int64_t number) {
    const Numbers values = read(number);
    const auto last =
        std::find_if(values.rbegin(), values.rend(), [](float value) { return value != -1; });
    return static_cast<std::size_t>(values.rend() - last);
  }
  /// The first numbers of an array, which each launch that has it as a result writes: it leaves
  /// some of those behind them as they are.
  Numbers first_written(int64_t number) {
    constexpr std::size_t kWritten = 64 / sizeof(float);
    Numbers values = read(number);
    values.resize(kWritten);
    return values;
  }
  void* tensor_ = nullptr;
};

TEST_F(LegacyTest, TensorTellsWhatIsSetAsFarAsThereIsRoom) {
  ASSERT_EQ(cudnnSetTensor4dDescriptor(tensor_, 0, 2, 3, 4, 5, 6), kSuccess);
  int type = -1;
  int count = -1;
  std::array<int, 4> extents{};
  std::array<int, 4> strides{};
  EXPECT_EQ(cudnnGetTensorNdDescriptor(tensor_, 3, &type, &count, extents.data(), strides.data()),
            kSuccess);
  EXPECT_EQ(type, 2);
  EXPECT_EQ(count, 4);
  EXPECT_EQ(extents, (std::array{3, 4, 5, 0}));
  EXPECT_EQ(strides, (std::array{120, 30, 6, 0}));
  EXPECT_EQ(cudnnGetTensorNdDescriptor(nullptr, 3, &type, &count, extents.data(), strides.data()),
            kBadParam);
}

TEST_F(LegacyTest, BatchNormalizationWritesEachResultFromAllThatItReads) {
  constexpr int64_t kImages = 0;
  constexpr int64_t kScale = 1;
  constexpr int64_t kShift = 2;
  constexpr std::array<int64_t, 3> kResults{3, 4, 5};  // Y, and the saved mean and variance
  for (const int64_t number : {kImages, kScale, kShift}) add(number, 1);
  const auto normalize = [&] {
    for (const int64_t number : kResults) write(number, 0);
    EXPECT_EQ(cudnnBatchNormalizationForwardTrainingEx(
                  handle_, 1, 0, nullptr, nullptr, tensor_, arrays_[kImages], tensor_, nullptr,
                  tensor_, arrays_[3], tensor_, arrays_[kScale], arrays_[kShift], 0.1, nullptr,
                  nullptr, 1e-5, arrays_[4], arrays_[5], nullptr, nullptr, 0, nullptr, 0),
              kSuccess);
    std::vector<Numbers> results;
    for (const int64_t number : kResults) results.push_back(read(number));
    return results;
  };
  for (const int64_t number : kResults) add(number, 0);
  const std::vector<Numbers> first = normalize();
  for (const Numbers& result : first) EXPECT_NE(result, all(0));
  EXPECT_EQ(normalize(), first);
  for (const int64_t number : {kImages, kScale, kShift}) {
    EXPECT_EQ(read(number), all(1)) << "it is only read";
    write(number, 7);
    const std::vector<Numbers> changed = normalize();
    for (std::size_t i = 0; i < changed.size(); ++i) EXPECT_NE(changed[i], first[i]) << number;
    write(number, 1);
  }
}

TEST_F(LegacyTest, BatchNormalizationReadsAResultThatItAddsTo) {
  constexpr float kNone = 0;
  constexpr float kHalf = 0.5F;
  ASSERT_EQ(cudnnSetTensor4dDescriptor(tensor_, 0, 0, 1, 1, 8, 8), kSuccess);
  for (int64_t number = 0; number < 4; ++number) add(number, 1);
  float* const in = arrays_[0];
  // Whether the array `number` depends on what it held.
  const auto differs = [&](int64_t number, const auto& normalize) {
    std::vector<Numbers> results;
    for (const float before : {1.0F, 2.0F}) {
      for (const int64_t result : {1, 2, 3}) write(result, 1);
      write(number, before);
      EXPECT_EQ(normalize(), kSuccess);
      results.push_back(first_written(number));
    }
    return results[0] != results[1];
  };
  for (const float* const beta : {&kNone, &kHalf}) {
    const bool is_added = beta == &kHalf;
    EXPECT_EQ(differs(1,
                      [&] {
                        return cudnnBatchNormalizationForwardInference(
                            handle_, 1, nullptr, beta, tensor_, in, tensor_, arrays_[1], tensor_,
                            in, in, in, in, 1e-5);
                      }),
              is_added);
    EXPECT_EQ(differs(1,
                      [&] {
                        return cudnnBatchNormalizationForwardTrainingEx(
                            handle_, 1, 0, nullptr, beta, tensor_, in, tensor_, nullptr, tensor_,
                            arrays_[1], tensor_, in, in, 0.1, nullptr, nullptr, 1e-5, nullptr,
                            nullptr, nullptr, nullptr, 0, nullptr, 0);
                      }),
              is_added);
    const auto backward = [&](const float* data_beta, const float* weight_beta) {
      return cudnnBatchNormalizationBackwardEx(
          handle_, 1, 0, nullptr, data_beta, nullptr, weight_beta, tensor_, in, tensor_, in,
          tensor_, in, tensor_, nullptr, tensor_, arrays_[1], tensor_, in, in, arrays_[2],
          arrays_[3], 1e-5, in, in, nullptr, nullptr, 0, nullptr, 0);
    };
    EXPECT_EQ(differs(1, [&] { return backward(beta, &kNone); }), is_added);
    EXPECT_EQ(differs(2, [&] { return backward(&kNone, beta); }), is_added);
    EXPECT_EQ(differs(3, [&] { return backward(&kNone, beta); }), is_added);
  }
}

TEST_F(LegacyTest, WeightsOfANetworkAreFoundInItsSpace) {
  void* described = nullptr;
  ASSERT_EQ(cudnnCreateRNNDescriptor(&described), kSuccess);
  ASSERT_EQ(cudnnSetRNNDescriptor_v8(described, 0, kLstm, kDoubleBias, 0, 0, 0, 0, 0, 6, 8, 8, 3,
                                     nullptr, 0),
            kSuccess);
  size_t bytes = 0;
  ASSERT_EQ(cudnnGetRNNWeightSpaceSize(handle_, described, &bytes), kSuccess);
  EXPECT_EQ(bytes, weight_bytes(network_of(kLstm, kDoubleBias, false, 8)));
  std::vector<char> weights(bytes);
  void* matrix = nullptr;
  void* bias = nullptr;
  void* bias_tensor = nullptr;
  ASSERT_EQ(cudnnCreateTensorDescriptor(&bias_tensor), kSuccess);
  ASSERT_EQ(cudnnGetRNNWeightParams(handle_, described, 1, bytes, weights.data(), 2, tensor_,
                                    &matrix, bias_tensor, &bias),
            kSuccess);
  const Network same = network_of(kLstm, kDoubleBias, false, 8);
  EXPECT_EQ(matrix, weights.data() + matrix_of(same, 1, 2).offset);
  EXPECT_EQ(bias, weights.data() + bias_of(same, 1, 2).offset);
  int type = -1;
  int count = 0;
  std::array<int, 3> extents{};
  std::array<int, 3> strides{};
  EXPECT_EQ(cudnnGetTensorNdDescriptor(tensor_, 3, &type, &count, extents.data(), strides.data()),
            kSuccess);
  EXPECT_EQ(extents, (std::array{1, 8, 8}));
  EXPECT_EQ(cudnnGetRNNWeightParams(handle_, described, 1, bytes - 1, weights.data(), 2, tensor_,
                                    &matrix, bias_tensor, &bias),
            kBadParam);
  EXPECT_EQ(cudnnDestroyTensorDescriptor(bias_tensor), kSuccess);
  EXPECT_EQ(cudnnDestroyRNNDescriptor(described), kSuccess);
}

TEST_F(LegacyTest, NetworkTellsWhatIsSet) {
  void* network = nullptr;
  ASSERT_EQ(cudnnCreateRNNDescriptor(&network), kSuccess);
  const int dropout = 0;
  ASSERT_EQ(cudnnSetRNNDescriptor_v8(network, 2, kLstm, kDoubleBias, 1, 1, 2, 5, 7, 6, 8, 4, 3,
                                     &dropout, 1),
            kSuccess);
  std::array<int, 12> told{};
  const void* told_dropout = nullptr;
  uint32_t flags = 0;
  EXPECT_EQ(cudnnGetRNNDescriptor_v8(network, &told[0], &told[1], &told[2], &told[3], &told[4],
                                     &told[5], &told[6], &told[7], &told[8], &told[9], &told[10],
                                     &told[11], &told_dropout, &flags),
            kSuccess);
  EXPECT_EQ(told, (std::array{2, int{kLstm}, kDoubleBias, 1, 1, 2, 5, 7, 6, 8, 4, 3}));
  EXPECT_EQ(told_dropout, &dropout);
  EXPECT_EQ(flags, 1U);
  int32_t hidden = 0;
  EXPECT_EQ(cudnnGetRNNDescriptor_v8(network, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
                                     nullptr, nullptr, nullptr, &hidden, nullptr, nullptr, nullptr,
                                     nullptr),
            kSuccess)
      << "for what is not asked for there is no place";
  EXPECT_EQ(hidden, 8);
  EXPECT_EQ(cudnnDestroyRNNDescriptor(network), kSuccess);
}

TEST_F(LegacyTest, BatchNormalizationStaysWithinItsTensors) {
  ASSERT_EQ(cudnnSetTensor4dDescriptor(tensor_, 0, 0, 1, 2, 3, 4), kSuccess);
  void* weights = nullptr;
  ASSERT_EQ(cudnnCreateTensorDescriptor(&weights), kSuccess);
  ASSERT_EQ(cudnnSetTensor4dDescriptor(weights, 0, 0, 1, 2, 1, 1), kSuccess);
  for (int64_t number = 0; number < 6; ++number) add(number, -1);
  EXPECT_EQ(cudnnBatchNormalizationForwardTrainingEx(
                handle_, 1, 0, nullptr, nullptr, tensor_, arrays_[0], tensor_, nullptr, tensor_,
                arrays_[3], weights, arrays_[1], arrays_[2], 0.1, nullptr, nullptr, 1e-5,
                arrays_[4], arrays_[5], nullptr, nullptr, 0, nullptr, 0),
            kSuccess);
  EXPECT_EQ(written(3), 24U);
  EXPECT_EQ(written(4), 2U);
  EXPECT_EQ(written(5), 2U);
  EXPECT_EQ(cudnnDestroyTensorDescriptor(weights), kSuccess);
}

TEST_F(LegacyTest, NetworkStaysWithinItsSequencesAndStates) {
  constexpr int kUnpacked = 0;
  constexpr int kPacked = 1;
  constexpr std::array kLengths{4, 1};
  void* network = nullptr;
  void* x = nullptr;
  void* y = nullptr;
  ASSERT_EQ(cudnnCreateRNNDescriptor(&network), kSuccess);
  ASSERT_EQ(
      cudnnSetRNNDescriptor_v8(network, 0, kLstm, kNoBias, 0, 0, 0, 0, 0, 2, 3, 3, 1, nullptr, 0),
      kSuccess);
  ASSERT_EQ(cudnnCreateRNNDataDescriptor(&x), kSuccess);
  ASSERT_EQ(cudnnCreateRNNDataDescriptor(&y), kSuccess);
  ASSERT_EQ(cudnnSetTensor4dDescriptor(tensor_, 0, 0, 1, 2, 3, 1), kSuccess);
  for (int64_t number = 0; number < 8; ++number) add(number, -1);
  for (const auto& [layout, numbers] : {std::pair{kUnpacked, 4U * 2 * 3}, {kPacked, 5U * 3}}) {
    ASSERT_EQ(cudnnSetRNNDataDescriptor(x, 0, layout, 4, 2, 2, kLengths.data(), nullptr), kSuccess);
    ASSERT_EQ(cudnnSetRNNDataDescriptor(y, 0, layout, 4, 2, 3, kLengths.data(), nullptr), kSuccess);
    for (const int64_t result : {1, 3, 5, 7}) write(result, -1);
    EXPECT_EQ(cudnnRNNForward(handle_, network, 1, nullptr, x, arrays_[0], y, arrays_[1], tensor_,
                              arrays_[2], arrays_[3], tensor_, arrays_[4], arrays_[5], 240,
                              arrays_[6], 0, nullptr, 32, arrays_[7]),
              kSuccess);
    EXPECT_EQ(written(1), numbers);
    EXPECT_EQ(written(3), 6U);
    EXPECT_EQ(written(5), 6U);
    EXPECT_EQ(written(7), 8U);
  }
  EXPECT_EQ(cudnnDestroyRNNDataDescriptor(x), kSuccess);
  EXPECT_EQ(cudnnDestroyRNNDataDescriptor(y), kSuccess);
  EXPECT_EQ(cudnnDestroyRNNDescriptor(network), kSuccess);
}

TEST_F(LegacyTest, ResultThatIsTheNinthInputIsReadBeforeItIsWritten) {
  void* network = nullptr;
  void* x = nullptr;
  void* y = nullptr;
  ASSERT_EQ(cudnnCreateRNNDescriptor(&network), kSuccess);
  ASSERT_EQ(
      cudnnSetRNNDescriptor_v8(network, 0, kLstm, kNoBias, 0, 0, 0, 0, 0, 2, 3, 3, 1, nullptr, 0),
      kSuccess);
  ASSERT_EQ(cudnnCreateRNNDataDescriptor(&x), kSuccess);
  ASSERT_EQ(cudnnCreateRNNDataDescriptor(&y), kSuccess);
  ASSERT_EQ(cudnnSetRNNDataDescriptor(x, 0, 0, 4, 2, 2, nullptr, nullptr), kSuccess);
  ASSERT_EQ(cudnnSetRNNDataDescriptor(y, 0, 0, 4, 2, 3, nullptr, nullptr), kSuccess);
  ASSERT_EQ(cudnnSetTensor4dDescriptor(tensor_, 0, 0, 1, 2, 3, 1), kSuccess);
  constexpr int64_t kReserve = 11;
  for (int64_t number = 0; number <= kReserve; ++number) add(number, 1);
  const auto reserve_after = [&](int64_t input, float value) {
    for (int64_t number = 0; number <= kReserve; ++number) write(number, 1);
    write(input, value);
    EXPECT_EQ(
        cudnnRNNBackwardData_v8(handle_, network, reinterpret_cast<const int32_t*>(arrays_[10]), y,
                                arrays_[0], arrays_[1], x, arrays_[7], tensor_, arrays_[2],
                                arrays_[3], arrays_[8], tensor_, arrays_[4], arrays_[5], arrays_[9],
                                kBytes, arrays_[6], 0, nullptr, kBytes, arrays_[kReserve]),
        kSuccess);
    return first_written(kReserve);
  };
  const Numbers first = reserve_after(kReserve, 1);
  EXPECT_EQ(reserve_after(kReserve, 1), first);
  for (const int64_t input : {0, 1, 2, 3, 4, 5, 6, 10, 11}) {
    EXPECT_NE(reserve_after(input, 2), first) << input;
  }
  EXPECT_EQ(cudnnDestroyRNNDataDescriptor(x), kSuccess);
  EXPECT_EQ(cudnnDestroyRNNDataDescriptor(y), kSuccess);
  EXPECT_EQ(cudnnDestroyRNNDescriptor(network), kSuccess);
}

}  // namespace
}  // namespace cudnn_test
