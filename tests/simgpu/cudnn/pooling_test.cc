// Pooling by cuDNN's calls beside its graph API: what a window leaves of a tensor, and what an
// execution reads and writes.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <vector>

#include "tests/simgpu/cudnn/dnn_fixture.h"

// The binary interface, as far as it is used here; NVIDIA's header is not among the toolkit's.
extern "C" {
int cudnnCreateTensorDescriptor(void** tensor);
int cudnnDestroyTensorDescriptor(void* tensor);
int cudnnSetTensor4dDescriptor(void* tensor, int format, int type, int n, int c, int h, int w);
int cudnnCreatePoolingDescriptor(void** pooling);
int cudnnDestroyPoolingDescriptor(void* pooling);
int cudnnSetPooling2dDescriptor(void* pooling, int mode, int nan, int height, int width,
                                int vertical_padding, int horizontal_padding, int vertical_stride,
                                int horizontal_stride);
int cudnnSetPoolingNdDescriptor(void* pooling, int mode, int nan, int count, const int* window,
                                const int* padding, const int* strides);
int cudnnGetPooling2dForwardOutputDim(const void* pooling, const void* input, int* n, int* c,
                                      int* h, int* w);
int cudnnGetPoolingNdForwardOutputDim(const void* pooling, const void* input, int count,
                                      int* extents);
int cudnnPoolingForward(void* handle, const void* pooling, const void* alpha, const void* x_tensor,
                        const void* x, const void* beta, const void* y_tensor, void* y);
int cudnnPoolingBackward(void* handle, const void* pooling, const void* alpha, const void* y_tensor,
                         const void* y, const void* dy_tensor, const void* dy, const void* x_tensor,
                         const void* x, const void* beta, const void* dx_tensor, void* dx);
}

namespace cudnn_test {
namespace {

constexpr int kSingle = 0;  // CUDNN_DATA_FLOAT

class PoolingTest : public DnnFixture {
 protected:
  void SetUp() override {
    DnnFixture::SetUp();
    ASSERT_EQ(cudnnCreatePoolingDescriptor(&pooling_), kSuccess);
    ASSERT_EQ(cudnnCreateTensorDescriptor(&input_), kSuccess);
    ASSERT_EQ(cudnnCreateTensorDescriptor(&result_), kSuccess);
    ASSERT_EQ(cudnnSetTensor4dDescriptor(input_, 0, kSingle, 1, 2, 4, 8), kSuccess);
    ASSERT_EQ(cudnnSetTensor4dDescriptor(result_, 0, kSingle, 1, 2, 2, 4), kSuccess);
    ASSERT_EQ(cudnnSetPooling2dDescriptor(pooling_, 0, 0, 2, 2, 0, 0, 2, 2), kSuccess);
  }
  void TearDown() override {
    EXPECT_EQ(cudnnDestroyTensorDescriptor(input_), kSuccess);
    EXPECT_EQ(cudnnDestroyTensorDescriptor(result_), kSuccess);
    EXPECT_EQ(cudnnDestroyPoolingDescriptor(pooling_), kSuccess);
    DnnFixture::TearDown();
  }
  /// What an execution with these inputs writes.
  Numbers forward(float value) {
    add(1, value);
    add(2, 0);
    EXPECT_EQ(cudnnPoolingForward(handle_, pooling_, nullptr, input_, arrays_[1], nullptr, result_,
                                  arrays_[2]),
              kSuccess);
    return read(2);
  }

  void* pooling_ = nullptr;
  void* input_ = nullptr;
  void* result_ = nullptr;
};

TEST_F(PoolingTest, TellsWhatAWindowLeavesOfATensor) {
  int n = 0;
  int c = 0;
  int h = 0;
  int w = 0;
  ASSERT_EQ(cudnnGetPooling2dForwardOutputDim(pooling_, input_, &n, &c, &h, &w), kSuccess);
  EXPECT_EQ((std::array{n, c, h, w}), (std::array{1, 2, 2, 4}));
  const std::array window{3, 3};
  const std::array padding{1, 1};
  const std::array strides{1, 2};
  ASSERT_EQ(
      cudnnSetPoolingNdDescriptor(pooling_, 0, 0, 2, window.data(), padding.data(), strides.data()),
      kSuccess);
  std::array<int, 4> extents{};
  ASSERT_EQ(cudnnGetPoolingNdForwardOutputDim(pooling_, input_, 4, extents.data()), kSuccess);
  EXPECT_EQ(extents, (std::array{1, 2, 4, 4}));
  EXPECT_EQ(cudnnGetPoolingNdForwardOutputDim(pooling_, input_, 3, extents.data()), kBadParam);
}

TEST_F(PoolingTest, RefusesWindowsThatNeverMove) {
  EXPECT_EQ(cudnnSetPooling2dDescriptor(pooling_, 0, 0, 2, 2, 0, 0, 0, 2), kBadParam);
  EXPECT_EQ(cudnnSetPooling2dDescriptor(pooling_, 0, 0, 0, 2, 0, 0, 1, 1), kBadParam);
}

TEST_F(PoolingTest, WritesTheResultFromTheInputAndNothingBehindIt) {
  const Numbers one = forward(1);
  EXPECT_NE(one, all(0));
  constexpr std::size_t kResults = 2 * 2 * 4;
  EXPECT_EQ(Numbers(one.begin() + kResults, one.end()), Numbers(kCount - kResults, 0));
  for (const int64_t number : {1, 2}) EXPECT_EQ(cudaFree(arrays_[number]), cudaSuccess);
  EXPECT_NE(forward(2), one);
}

TEST_F(PoolingTest, WritesTheGradientFromAllThatItReads) {
  for (const int64_t number : {1, 2, 3, 4}) add(number, 1);
  const auto backward = [this] {
    write(4, 1);  // the result may depend on what was there
    EXPECT_EQ(cudnnPoolingBackward(handle_, pooling_, nullptr, result_, arrays_[1], result_,
                                   arrays_[2], input_, arrays_[3], nullptr, input_, arrays_[4]),
              kSuccess);
    return read(4);
  };
  const Numbers first = backward();
  for (const int64_t number : {1, 2, 3}) {
    write(number, 2);
    EXPECT_NE(backward(), first) << number;
    write(number, 1);
  }
  EXPECT_EQ(backward(), first);
}

TEST_F(PoolingTest, ReadsAResultThatItAddsTo) {
  for (const int64_t number : {1, 2}) add(number, 1);
  const auto differs = [&](const float* beta, const auto& pool) {
    std::vector<Numbers> results;
    for (const float before : {1.0F, 2.0F}) {
      write(2, before);
      EXPECT_EQ(pool(beta), kSuccess);
      results.push_back(read(2));
      results.back().resize(2 * 2 * 4);
    }
    return results[0] != results[1];
  };
  const auto forward = [&](const float* beta) {
    return cudnnPoolingForward(handle_, pooling_, nullptr, input_, arrays_[1], beta, result_,
                               arrays_[2]);
  };
  const auto backward = [&](const float* beta) {
    return cudnnPoolingBackward(handle_, pooling_, nullptr, result_, arrays_[1], result_,
                                arrays_[1], input_, arrays_[1], beta, input_, arrays_[2]);
  };
  constexpr float kNone = 0;
  constexpr float kHalf = 0.5F;
  EXPECT_FALSE(differs(&kNone, forward));
  EXPECT_TRUE(differs(&kHalf, forward));
  EXPECT_FALSE(differs(&kNone, backward));
  EXPECT_TRUE(differs(&kHalf, backward));
}

}  // namespace
}  // namespace cudnn_test
