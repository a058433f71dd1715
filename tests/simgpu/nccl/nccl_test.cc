// simgpu's NCCL: one rank, whose collectives are copies in the order of their streams.
#include <cuda_runtime.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

// The binary interface, as far as it is used here; NVIDIA's header is not among the toolkit's.
extern "C" {
struct NcclId {
  std::array<char, 128> bytes;
};
int ncclGetVersion(int* version);
int ncclGetUniqueId(NcclId* id);
const char* ncclGetErrorString(int result);
int ncclCommInitRank(void** communicator, int ranks, NcclId id, int rank);
int ncclCommSplit(void* communicator, int color, int key, void** part, void* config);
int ncclCommDestroy(void* communicator);
int ncclCommCount(void* communicator, int* count);
int ncclCommUserRank(void* communicator, int* rank);
int ncclCommCuDevice(void* communicator, int* device);
int ncclCommGetAsyncError(void* communicator, int* result);
int ncclGroupStart();
int ncclGroupEnd();
int ncclAllReduce(const void* from, void* to, size_t count, int type, int operation,
                  void* communicator, cudaStream_t stream);
int ncclBroadcast(const void* from, void* to, size_t count, int type, int root, void* communicator,
                  cudaStream_t stream);
int ncclSend(const void* from, size_t count, int type, int peer, void* communicator,
             cudaStream_t stream);
int ncclRecv(void* to, size_t count, int type, int peer, void* communicator, cudaStream_t stream);
int ncclCommWindowRegister();
}

namespace nccl_test {
namespace {

using ::testing::HasSubstr;

constexpr int kDone = 0;
constexpr int kInvalidArgument = 4;
constexpr int kInvalidUsage = 5;
constexpr int kHalf = 6;
constexpr int kFloats = 7;
constexpr int kSum = 0;
constexpr std::size_t kCount = 100;

class NcclTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(cudaFree(nullptr), cudaSuccess);  // makes the context
    NcclId id{};
    ASSERT_EQ(ncclGetUniqueId(&id), kDone);
    ASSERT_EQ(ncclCommInitRank(&communicator_, 1, id, 0), kDone);
    ASSERT_EQ(cudaStreamCreate(&stream_), cudaSuccess);
  }
  void TearDown() override {
    EXPECT_EQ(ncclCommDestroy(communicator_), kDone);
    EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess);
    for (float* const array : arrays_) EXPECT_EQ(cudaFree(array), cudaSuccess);
  }
  float* array(float value) {
    arrays_.push_back(nullptr);
    const std::vector<float> values(kCount, value);
    EXPECT_EQ(cudaMalloc(&arrays_.back(), kCount * sizeof(float)), cudaSuccess);
    EXPECT_EQ(
        cudaMemcpy(arrays_.back(), values.data(), kCount * sizeof(float), cudaMemcpyHostToDevice),
        cudaSuccess);
    return arrays_.back();
  }
  /// Once the stream is done.
  std::vector<float> values_of(const float* array) {
    std::vector<float> values(kCount);
    EXPECT_EQ(cudaMemcpyAsync(values.data(), array, kCount * sizeof(float), cudaMemcpyDeviceToHost,
                              stream_),
              cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
    return values;
  }
  static std::vector<float> all(float value) {
    std::vector<float> values(kCount, value);
    return values;
  }

  void* communicator_ = nullptr;
  cudaStream_t stream_ = nullptr;
  std::vector<float*> arrays_;
};

TEST_F(NcclTest, HasOneRank) {
  int value = -1;
  ASSERT_EQ(ncclCommCount(communicator_, &value), kDone);
  EXPECT_EQ(value, 1);
  ASSERT_EQ(ncclCommUserRank(communicator_, &value), kDone);
  EXPECT_EQ(value, 0);
  value = -1;
  ASSERT_EQ(ncclCommCuDevice(communicator_, &value), kDone);
  EXPECT_EQ(value, 0);
  ASSERT_EQ(ncclCommGetAsyncError(communicator_, &value), kDone);
  EXPECT_EQ(value, kDone);
  ASSERT_EQ(ncclGetVersion(&value), kDone);
  EXPECT_GE(value, 22000);
}

TEST_F(NcclTest, RefusesSeveralRanksInOneLine) {
  void* several = nullptr;
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(ncclCommInitRank(&several, 2, {}, 0), kInvalidUsage);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("one process, and 2 were asked"));
  EXPECT_EQ(several, nullptr);
  EXPECT_EQ(ncclCommInitRank(&several, 1, {}, 1), kInvalidArgument);
  EXPECT_STREQ(ncclGetErrorString(kInvalidUsage), "invalid usage");
}

TEST_F(NcclTest, APartOfItIsItselfOrNothing) {
  void* part = nullptr;
  ASSERT_EQ(ncclCommSplit(communicator_, 3, 0, &part, nullptr), kDone);
  EXPECT_NE(part, nullptr);
  EXPECT_EQ(ncclCommDestroy(part), kDone);
  ASSERT_EQ(ncclCommSplit(communicator_, -1, 0, &part, nullptr), kDone);
  EXPECT_EQ(part, nullptr);
}

TEST_F(NcclTest, ACollectiveCopiesInTheOrderOfItsStream) {
  float* const from = array(1);
  float* const to = array(0);
  const std::vector<float> later = all(2);
  ASSERT_EQ(
      cudaMemcpyAsync(from, later.data(), kCount * sizeof(float), cudaMemcpyHostToDevice, stream_),
      cudaSuccess);
  ASSERT_EQ(ncclAllReduce(from, to, kCount, kFloats, kSum, communicator_, stream_), kDone);
  EXPECT_EQ(values_of(to), later);
  ASSERT_EQ(ncclAllReduce(to, to, kCount, kFloats, kSum, communicator_, stream_), kDone);
  EXPECT_EQ(values_of(to), later) << "in place";
}

TEST_F(NcclTest, CopiesAsManyBytesAsTheTypeHas) {
  float* const from = array(1);
  float* const to = array(0);
  ASSERT_EQ(ncclBroadcast(from, to, kCount, kHalf, 0, communicator_, stream_), kDone);
  std::vector<float> half = all(0);
  std::fill_n(half.begin(), kCount / 2, 1.0F);
  EXPECT_EQ(values_of(to), half);
}

TEST_F(NcclTest, AGroupMatchesSendsAndReceivesInTheirOrder) {
  float* const one = array(1);
  float* const two = array(2);
  float* const first = array(0);
  float* const second = array(0);
  ASSERT_EQ(ncclGroupStart(), kDone);
  EXPECT_EQ(ncclSend(one, kCount, kFloats, 0, communicator_, stream_), kDone);
  EXPECT_EQ(ncclSend(two, kCount, kFloats, 0, communicator_, stream_), kDone);
  EXPECT_EQ(ncclRecv(first, kCount, kFloats, 0, communicator_, stream_), kDone);
  EXPECT_EQ(ncclRecv(second, kCount, kFloats, 0, communicator_, stream_), kDone);
  EXPECT_EQ(values_of(first), all(0)) << "nothing is copied before the group's end";
  ASSERT_EQ(ncclGroupEnd(), kDone);
  EXPECT_EQ(values_of(first), all(1));
  EXPECT_EQ(values_of(second), all(2));
}

TEST_F(NcclTest, RefusesWhatHasNoOtherEnd) {
  float* const data = array(1);
  EXPECT_EQ(ncclSend(data, kCount, kFloats, 0, communicator_, stream_), kInvalidUsage);
  EXPECT_EQ(ncclSend(data, kCount, kFloats, 1, communicator_, stream_), kInvalidArgument);
  EXPECT_EQ(ncclGroupEnd(), kInvalidUsage);
  constexpr int kNoType = 99;
  EXPECT_EQ(ncclAllReduce(data, data, kCount, kNoType, kSum, communicator_, stream_),
            kInvalidArgument);
  EXPECT_EQ(ncclAllReduce(data, nullptr, kCount, kFloats, kSum, communicator_, stream_),
            kInvalidArgument);
}

TEST_F(NcclTest, SaysWhichFunctionItDoesNotHave) {
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(ncclCommWindowRegister(), kInvalidUsage);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("ncclCommWindowRegister is not supported by simgpu's NCCL"));
}

}  // namespace
}  // namespace nccl_test
