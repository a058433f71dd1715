// Handles of simgpu's stand-in for cuDNN, and what the library says of itself.

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <array>

#include "tests/simgpu/cudnn/dnn_fixture.h"

// The binary interface, as far as it is used here; NVIDIA's header is not among the toolkit's.
extern "C" {
int cudnnSetStream(void* handle, cudaStream_t stream);
int cudnnGetStream(void* handle, cudaStream_t* stream);
size_t cudnnGetVersion();
size_t cudnnGetCudartVersion();
int cudnnGetProperty(int property, int* value);
const char* cudnnGetErrorString(int status);
void cudnnGetLastErrorString(char* text, size_t size);
int cudnnGraphVersionCheck();
int cudnnCTCLoss_v8();
}

namespace cudnn_test {
namespace {

class HandleTest : public DnnFixture {};

TEST_F(HandleTest, AHandleKeepsItsStream) {
  cudaStream_t found = nullptr;
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  EXPECT_EQ(cudnnSetStream(handle_, stream), kSuccess);
  EXPECT_EQ(cudnnGetStream(handle_, &found), kSuccess);
  EXPECT_EQ(found, stream);
  void* other = nullptr;
  ASSERT_EQ(cudnnCreate(&other), kSuccess);
  EXPECT_NE(other, handle_);
  EXPECT_EQ(cudnnGetStream(other, &found), kSuccess);
  EXPECT_EQ(found, nullptr);
  EXPECT_EQ(cudnnDestroy(other), kSuccess);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

TEST_F(HandleTest, RefusesWhatIsNoHandleOrNoPlace) {
  EXPECT_EQ(cudnnCreate(nullptr), kBadParam);
  EXPECT_EQ(cudnnSetStream(nullptr, nullptr), kBadParam);
  cudaStream_t stream = nullptr;
  EXPECT_EQ(cudnnGetStream(nullptr, &stream), kBadParam);
  EXPECT_EQ(cudnnGetStream(handle_, nullptr), kBadParam);
  EXPECT_EQ(cudnnDestroy(nullptr), kSuccess);
}

TEST_F(HandleTest, VersionIsTheSameInEachForm) {
  std::array<int, 3> parts{};
  for (int i = 0; i < 3; ++i) ASSERT_EQ(cudnnGetProperty(i, &parts.at(i)), kSuccess);
  EXPECT_EQ(cudnnGetVersion(), 10000U * parts[0] + 100U * parts[1] + parts[2]);
  EXPECT_EQ(parts[0], 9);
  EXPECT_EQ(cudnnGetProperty(3, parts.data()), kBadParam);
  EXPECT_EQ(cudnnGetProperty(-1, parts.data()), kBadParam);
  EXPECT_EQ(cudnnGetProperty(0, nullptr), kBadParam);
  EXPECT_EQ(cudnnGetCudartVersion() / 1000, 13U);
  EXPECT_EQ(cudnnGraphVersionCheck(), kSuccess);
}

TEST_F(HandleTest, StatusCodesHaveNames) {
  EXPECT_STREQ(cudnnGetErrorString(kSuccess), "CUDNN_STATUS_SUCCESS");
  EXPECT_STREQ(cudnnGetErrorString(kBadParam), "CUDNN_STATUS_BAD_PARAM");
  EXPECT_STREQ(cudnnGetErrorString(kNotSupported), "CUDNN_STATUS_NOT_SUPPORTED");
  EXPECT_STREQ(cudnnGetErrorString(77), "CUDNN_STATUS_UNKNOWN");
  std::array<char, 4> text{'a', 'b', 'c', '\0'};
  cudnnGetLastErrorString(text.data(), 0);
  EXPECT_STREQ(text.data(), "abc");
  cudnnGetLastErrorString(text.data(), text.size());
  EXPECT_STREQ(text.data(), "");
}

TEST_F(HandleTest, FunctionThatIsNotThereIsRefusedAndSaysSoOnce) {
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(cudnnCTCLoss_v8(), kNotSupported);
  EXPECT_EQ(cudnnCTCLoss_v8(), kNotSupported);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "simgpu: cudnnCTCLoss_v8 is not supported by simgpu's cuDNN\n");
}

}  // namespace
}  // namespace cudnn_test
