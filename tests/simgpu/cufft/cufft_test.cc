// simgpu's stand-in for cuFFT: plans, and executions that write what follows from what they read.

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "tests/simgpu/arena.h"

// The binary interface, as far as it is used here; NVIDIA's header is not among every toolkit's.
extern "C" {
int cufftCreate(int* plan);
int cufftDestroy(int plan);
int cufftPlan1d(int* plan, int nx, int type, int batch);
int cufftPlan2d(int* plan, int nx, int ny, int type);
int cufftMakePlan3d(int plan, int nx, int ny, int nz, int type, size_t* work_size);
int cufftMakePlanMany(int plan, int rank, int* n, int* input, int input_stride, int input_distance,
                      int* output, int output_stride, int output_distance, int type, int batch,
                      size_t* work_size);
int cufftXtMakePlanMany(int plan, int rank, long long* n, long long* input, long long input_stride,
                        long long input_distance, int input_type, long long* output,
                        long long output_stride, long long output_distance, int output_type,
                        long long batch, size_t* work_size, int execution_type);
int cufftGetSize(int plan, size_t* work_size);
int cufftEstimate1d(int nx, int type, int batch, size_t* work_size);
int cufftSetAutoAllocation(int plan, int allocate);
int cufftSetWorkArea(int plan, void* area);
int cufftSetStream(int plan, cudaStream_t stream);
int cufftExecC2C(int plan, void* input, void* output, int direction);
int cufftExecR2C(int plan, void* input, void* output);
int cufftExecD2Z(int plan, void* input, void* output);
int cufftXtExec(int plan, void* input, void* output, int direction);
int cufftGetVersion(int* version);
int cufftGetProperty(int property, int* value);
int cufftXtSetGPUs();
}

namespace cufft_test {
namespace {

using simgpu_test::Arena;
using simgpu_test::depends_on;
using simgpu_test::written_by;

constexpr int kInvalidPlan = 1;
constexpr int kInvalidType = 3;
constexpr int kInvalidValue = 4;
constexpr int kInvalidSize = 8;
constexpr int kNotSupported = 16;
constexpr int kR2C = 0x2a;
constexpr int kC2C = 0x29;

class CufftTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(cudaFree(nullptr), cudaSuccess); }  // makes the context
};

TEST_F(CufftTest, TransformStaysWithinItsSides) {
  const Arena arena;
  constexpr size_t kInput = 4096;
  constexpr size_t kOutput = 65536;
  int plan = 0;
  ASSERT_EQ(cufftPlan2d(&plan, 10, 12, kR2C), 0);
  const auto transform = [&] { return cufftExecR2C(plan, arena.at(kInput), arena.at(kOutput)); };
  EXPECT_EQ(written_by(arena, transform), std::pair(kOutput, kOutput + 10 * 7 * 8));
  constexpr size_t kEnd = kInput + 10 * 12 * sizeof(float);
  EXPECT_TRUE(depends_on(arena, kInput, arena.at(kOutput), transform));
  EXPECT_TRUE(depends_on(arena, kEnd - 1, arena.at(kOutput), transform));
  EXPECT_FALSE(depends_on(arena, kEnd, arena.at(kOutput), transform));
  EXPECT_EQ(cufftDestroy(plan), 0);
}

TEST_F(CufftTest, TransformInPlaceReadsWhatItOverwrites) {
  const Arena arena;
  int plan = 0;
  ASSERT_EQ(cufftPlan1d(&plan, 64, kC2C, 2), 0);
  const auto transform = [&] { return cufftExecC2C(plan, arena.at(4096), arena.at(4096), 1); };
  EXPECT_EQ(written_by(arena, transform), std::pair(size_t{4096}, size_t{4096 + 2 * 64 * 8}));
  EXPECT_TRUE(depends_on(arena, 4096, arena.at(4096), transform));
  EXPECT_EQ(cufftDestroy(plan), 0);
}

TEST_F(CufftTest, PlansOfManyHaveTheLayoutsThatTheyAreGiven) {
  const Arena arena;
  std::array<int, 1> extents{8};
  std::array<int, 1> storage{8};
  int plan = 0;
  size_t work = 0;
  ASSERT_EQ(cufftCreate(&plan), 0);
  ASSERT_EQ(cufftSetAutoAllocation(plan, 0), 0);
  // Transforms of columns: numbers 10 apart, columns side by side.
  ASSERT_EQ(cufftMakePlanMany(plan, 1, extents.data(), storage.data(), 10, 1, storage.data(), 10, 1,
                              kC2C, 3, &work),
            0);
  EXPECT_GT(work, 0U);
  EXPECT_EQ(cufftSetWorkArea(plan, arena.at(0)), 0);
  size_t again = 0;
  EXPECT_EQ(cufftGetSize(plan, &again), 0);
  EXPECT_EQ(again, work);
  const auto transform = [&] { return cufftExecC2C(plan, arena.at(4096), arena.at(65536), 1); };
  EXPECT_EQ(written_by(arena, transform),
            std::pair(size_t{65536}, size_t{65536 + (2 + 7 * 10 + 1) * 8}));
  EXPECT_EQ(cufftDestroy(plan), 0);
}

TEST_F(CufftTest, PlansOfAnyTypeExecuteByOneFunction) {
  const Arena arena;
  constexpr int kHalf = 2;
  constexpr int kComplexOfHalves = 6;
  long long extents = 16;
  int plan = 0;
  size_t work = 0;
  ASSERT_EQ(cufftCreate(&plan), 0);
  ASSERT_EQ(cufftXtMakePlanMany(plan, 1, &extents, nullptr, 1, 16, kHalf, nullptr, 1, 9,
                                kComplexOfHalves, 4, &work, kComplexOfHalves),
            0);
  const auto transform = [&] { return cufftXtExec(plan, arena.at(4096), arena.at(65536), -1); };
  EXPECT_EQ(written_by(arena, transform), std::pair(size_t{65536}, size_t{65536 + 4 * 9 * 4}));
  EXPECT_TRUE(depends_on(arena, 4096 + 4 * 16 * 2 - 1, arena.at(65536), transform));
  EXPECT_FALSE(depends_on(arena, 4096 + 4 * 16 * 2, arena.at(65536), transform));
  EXPECT_EQ(cufftDestroy(plan), 0);
}

TEST_F(CufftTest, ExecutionGoesToThePlansStream) {
  const Arena arena;
  cudaStream_t stream = nullptr;
  int plan = 0;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(cufftPlan1d(&plan, 16, kC2C, 1), 0);
  ASSERT_EQ(cufftSetStream(plan, stream), 0);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);  // the arena is filled in another stream
  const auto transform = [&](int value) {
    EXPECT_EQ(cudaMemsetAsync(arena.at(4096), 0, 128, stream), cudaSuccess);
    EXPECT_EQ(cudaMemsetAsync(arena.at(0), value, 128, stream), cudaSuccess);
    EXPECT_EQ(cufftExecC2C(plan, arena.at(0), arena.at(4096), 1), 0);
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    return arena.get<float>(4096, 32);
  };
  const std::vector<float> first = transform(1);
  EXPECT_NE(transform(2), first);
  EXPECT_EQ(transform(1), first);
  EXPECT_EQ(cufftDestroy(plan), 0);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

TEST_F(CufftTest, RefusesWhatTheDocumentationRefuses) {
  const Arena arena;
  int plan = 0;
  size_t work = 0;
  EXPECT_EQ(cufftPlan1d(&plan, 0, kC2C, 1), kInvalidSize);
  EXPECT_EQ(cufftPlan1d(&plan, 16, 7, 1), kInvalidType);
  EXPECT_EQ(cufftDestroy(12345), kInvalidPlan);
  EXPECT_EQ(cufftExecC2C(12345, arena.at(0), arena.at(0), 1), kInvalidPlan);
  ASSERT_EQ(cufftCreate(&plan), 0);
  EXPECT_EQ(cufftExecC2C(plan, arena.at(0), arena.at(0), 1), kInvalidPlan) << "it is not made";
  EXPECT_EQ(cufftGetSize(plan, &work), kInvalidPlan);
  EXPECT_EQ(cufftMakePlan3d(plan, 4, 4, 4, kC2C, &work), 0);
  EXPECT_EQ(cufftMakePlan3d(plan, 4, 4, 4, kC2C, &work), kInvalidPlan) << "it is made already";
  EXPECT_EQ(cufftExecR2C(plan, arena.at(0), arena.at(0)), kInvalidType);
  EXPECT_EQ(cufftExecD2Z(plan, arena.at(0), arena.at(0)), kInvalidType);
  EXPECT_EQ(cufftExecC2C(plan, nullptr, arena.at(0), 1), kInvalidValue);
  EXPECT_EQ(cufftDestroy(plan), 0);
  EXPECT_EQ(cufftDestroy(plan), kInvalidPlan);
  EXPECT_EQ(cufftEstimate1d(1024, kC2C, 1, &work), 0);
  EXPECT_EQ(cufftXtSetGPUs(), kNotSupported);
}

TEST_F(CufftTest, VersionIsTheSameInEachForm) {
  std::array<int, 3> parts{};
  int version = 0;
  for (int i = 0; i < 3; ++i) ASSERT_EQ(cufftGetProperty(i, &parts.at(i)), 0);
  ASSERT_EQ(cufftGetVersion(&version), 0);
  EXPECT_EQ(version, 1000 * parts[0] + 100 * parts[1] + parts[2]);
  EXPECT_EQ(parts[0], 12);
  EXPECT_EQ(cufftGetProperty(3, parts.data()), kInvalidValue);
  EXPECT_EQ(cufftGetVersion(nullptr), kInvalidValue);
}

}  // namespace
}  // namespace cufft_test
