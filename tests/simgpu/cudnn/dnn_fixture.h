// A handle of simgpu's stand-in for cuDNN, and arrays on the device.
#pragma once

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

// The binary interface; NVIDIA's header is not among the toolkit's.
extern "C" {
int cudnnCreate(void** handle);
int cudnnDestroy(void* handle);
}

namespace cudnn_test {

constexpr int kSuccess = 0;
constexpr int kBadParam = 2000;
constexpr int kNotSupported = 3000;

using Numbers = std::vector<float>;
constexpr std::size_t kCount = 64;

/// The arrays have numbers, by which tests name them.
class DnnFixture : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(cudaFree(nullptr), cudaSuccess);  // makes the context
    ASSERT_EQ(cudnnCreate(&handle_), kSuccess);
  }
  void TearDown() override {
    EXPECT_EQ(cudnnDestroy(handle_), kSuccess);
    for (const auto& [number, array] : arrays_) EXPECT_EQ(cudaFree(array), cudaSuccess);
  }

  void add(int64_t number, float value) {
    ASSERT_EQ(cudaMalloc(&arrays_[number], kBytes), cudaSuccess);
    write(number, value);
  }
  void write(int64_t number, float value) {
    const Numbers values(kCount, value);
    ASSERT_EQ(cudaMemcpy(arrays_.at(number), values.data(), kBytes, cudaMemcpyHostToDevice),
              cudaSuccess);
  }
  Numbers read(int64_t number) {
    Numbers values(kCount);
    EXPECT_EQ(cudaMemcpy(values.data(), arrays_.at(number), kBytes, cudaMemcpyDeviceToHost),
              cudaSuccess);
    return values;
  }
  static Numbers all(float value) { return Numbers(kCount, value); }

  static constexpr std::size_t kBytes = sizeof(float) * kCount;
  void* handle_ = nullptr;
  std::map<int64_t, float*> arrays_;
};

}  // namespace cudnn_test
