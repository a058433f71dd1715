// simgpu's stand-in for cuSOLVER: results follow from what a routine reads, and it reports success.

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <vector>

#include "tests/simgpu/arena.h"

// The binary interface, as far as it is used here; NVIDIA's header is not among every toolkit's.
extern "C" {
int cusolverDnCreate(void** handle);
int cusolverDnDestroy(void* handle);
int cusolverDnSetStream(void* handle, cudaStream_t stream);
int cusolverDnGetStream(void* handle, cudaStream_t* stream);
int cusolverDnCreateParams(void** parameters);
int cusolverDnDestroyParams(void* parameters);
int cusolverDnCreateGesvdjInfo(void** info);
int cusolverDnDestroyGesvdjInfo(void* info);
int cusolverDnXgesvdjGetResidual(void* handle, void* info, double* residual);
int cusolverDnSpotrf_bufferSize(void* handle, int uplo, int n, void* a, int lda, int* size);
int cusolverDnSpotrf(void* handle, int uplo, int n, void* a, int lda, void* work, int size,
                     void* info);
int cusolverDnSpotrfBatched(void* handle, int uplo, int n, void* a, int lda, void* info, int count);
int cusolverDnSgetrf(void* handle, int m, int n, void* a, int lda, void* work, void* pivots,
                     void* info);
int cusolverDnSgetrs(void* handle, int transpose, int n, int sides, const void* a, int lda,
                     const void* pivots, void* b, int ldb, void* info);
int cusolverDnSgeqrf(void* handle, int m, int n, void* a, int lda, void* tau, void* work, int size,
                     void* info);
int cusolverDnSormqr(void* handle, int side, int transpose, int m, int n, int k, const void* a,
                     int lda, const void* tau, void* c, int ldc, void* work, int size, void* info);
int cusolverDnCheevd(void* handle, int vectors, int uplo, int n, void* a, int lda, void* w,
                     void* work, int size, void* info);
int cusolverDnSsyevjBatched(void* handle, int vectors, int uplo, int n, void* a, int lda, void* w,
                            void* work, int size, void* info, void* parameters, int count);
int cusolverDnSgesvd(void* handle, signed char job_u, signed char job_v, int m, int n, void* a,
                     int lda, void* s, void* u, int ldu, void* v, int ldv, void* work, int size,
                     void* real_work, void* info);
int cusolverDnSgesvdaStridedBatched(void* handle, int vectors, int rank, int m, int n,
                                    const void* a, int lda, long long stride_a, void* s,
                                    long long stride_s, void* u, int ldu, long long stride_u,
                                    void* v, int ldv, long long stride_v, void* work, int size,
                                    void* info, double* residuals, int count);
int cusolverDnXgetrf_bufferSize(void* handle, void* parameters, int64_t m, int64_t n, int type,
                                const void* a, int64_t lda, int computes, size_t* device_bytes,
                                size_t* host_bytes);
int cusolverDnXgetrf(void* handle, void* parameters, int64_t m, int64_t n, int type, void* a,
                     int64_t lda, void* pivots, int computes, void* device_area,
                     size_t device_bytes, void* host_area, size_t host_bytes, void* info);
int cusolverGetVersion(int* version);
int cusolverGetProperty(int property, int* value);
int cusolverDnSsygvd();
}

namespace cusolver_test {
namespace {

using simgpu_test::Arena;
using simgpu_test::depends_on;
using simgpu_test::written_by;

constexpr int kNotInitialized = 1;
constexpr int kInvalidValue = 3;
constexpr int kNotSupported = 9;
constexpr size_t kA = 65536;
constexpr size_t kInfo = 1024;

class CusolverTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(cudaFree(nullptr), cudaSuccess);  // makes the context
    ASSERT_EQ(cusolverDnCreate(&handle_), 0);
  }
  void TearDown() override { EXPECT_EQ(cusolverDnDestroy(handle_), 0); }

  /// Whether the word there is another one than in an arena of ones.
  static bool is_written(const Arena& arena, size_t byte) {
    return arena.get<std::uint32_t>(byte, 1).at(0) != ~0U;
  }

  void* handle_ = nullptr;
};

TEST_F(CusolverTest, FactorsOverwriteTheirMatrixOnly) {
  const Arena arena;
  const auto factor = [&] {
    return cusolverDnSpotrf(handle_, 0, 10, arena.at(kA), 12, nullptr, 0, nullptr);
  };
  EXPECT_EQ(written_by(arena, factor), std::pair(kA, kA + (9 * 12 + 10) * sizeof(float)));
  EXPECT_TRUE(depends_on(arena, kA, arena.at(kA), factor));
  EXPECT_TRUE(depends_on(arena, kA + (9 * 12 + 10) * 4 - 1, arena.at(kA), factor));
}

TEST_F(CusolverTest, FactorsReportSuccessAndPivotsThatIndexRows) {
  const Arena arena;
  arena.fill(0xff);
  ASSERT_EQ(
      cusolverDnSgetrf(handle_, 4, 3, arena.at(kA), 4, nullptr, arena.at(4096), arena.at(kInfo)),
      0);
  EXPECT_EQ(arena.get<int>(kInfo, 2), (std::vector<int>{0, -1}));
  EXPECT_EQ(arena.get<int>(4096, 4), (std::vector<int>{1, 2, 3, -1}));
  EXPECT_TRUE(is_written(arena, kA));
}

TEST_F(CusolverTest, PivotsOfSizesOf64BitsHave64Bits) {
  const Arena arena;
  arena.fill(0xff);
  size_t device_bytes = 0;
  size_t host_bytes = 7;
  constexpr int kDouble = 1;
  ASSERT_EQ(cusolverDnXgetrf_bufferSize(handle_, nullptr, 3, 5, kDouble, nullptr, 3, kDouble,
                                        &device_bytes, &host_bytes),
            0);
  EXPECT_GT(device_bytes, 0U);
  EXPECT_EQ(host_bytes, 0U);
  ASSERT_EQ(cusolverDnXgetrf(handle_, nullptr, 3, 5, kDouble, arena.at(kA), 3, arena.at(4096),
                             kDouble, nullptr, 0, nullptr, 0, arena.at(kInfo)),
            0);
  EXPECT_EQ(arena.get<std::int64_t>(4096, 4), (std::vector<std::int64_t>{1, 2, 3, -1}));
  EXPECT_TRUE(is_written(arena, kA + 15 * sizeof(double) - 8));
  EXPECT_FALSE(is_written(arena, kA + 15 * sizeof(double)));
}

TEST_F(CusolverTest, SolutionsFollowFromFactorsPivotsAndRightSides) {
  const Arena arena;
  constexpr size_t kB = 131072;
  constexpr size_t kPivots = 4096;
  const auto solve = [&] {
    return cusolverDnSgetrs(handle_, 0, 5, 3, arena.at(kA), 5, arena.at(kPivots), arena.at(kB), 5,
                            nullptr);
  };
  EXPECT_EQ(written_by(arena, solve), std::pair(kB, kB + 15 * sizeof(float)));
  for (const size_t byte : {kA, kB, kPivots}) {
    EXPECT_TRUE(depends_on(arena, byte, arena.at(kB), solve)) << byte;
  }
  EXPECT_FALSE(depends_on(arena, kA + 25 * sizeof(float), arena.at(kB), solve));
  EXPECT_FALSE(depends_on(arena, kPivots + 5 * sizeof(int), arena.at(kB), solve));
}

TEST_F(CusolverTest, OrthogonalFactorsAreAMatrixAndReflectors) {
  const Arena arena;
  constexpr size_t kTau = 4096;
  const auto factor = [&] {
    return cusolverDnSgeqrf(handle_, 6, 4, arena.at(kA), 6, arena.at(kTau), nullptr, 0,
                            arena.at(kInfo));
  };
  EXPECT_TRUE(depends_on(arena, kA, arena.at(kTau), factor));
  EXPECT_TRUE(depends_on(arena, kA, arena.at(kA), factor));
  arena.fill(0xff);
  ASSERT_EQ(factor(), 0);
  EXPECT_TRUE(is_written(arena, kTau + 3 * sizeof(float)));
  EXPECT_FALSE(is_written(arena, kTau + 4 * sizeof(float)));
  constexpr size_t kC = 131072;
  const auto multiply = [&] {
    return cusolverDnSormqr(handle_, 1, 0, 3, 6, 4, arena.at(kA), 6, arena.at(kTau), arena.at(kC),
                            3, nullptr, 0, nullptr);
  };
  EXPECT_EQ(written_by(arena, multiply), std::pair(kC, kC + 18 * sizeof(float)));
  EXPECT_TRUE(depends_on(arena, kA + 24 * sizeof(float) - 1, arena.at(kC), multiply));
  EXPECT_FALSE(depends_on(arena, kA + 24 * sizeof(float), arena.at(kC), multiply));
}

TEST_F(CusolverTest, EigenvaluesOfComplexMatricesAreReal) {
  const Arena arena;
  constexpr size_t kW = 4096;
  arena.fill(0xff);
  ASSERT_EQ(cusolverDnCheevd(handle_, 1, 0, 5, arena.at(kA), 5, arena.at(kW), nullptr, 0,
                             arena.at(kInfo)),
            0);
  EXPECT_TRUE(is_written(arena, kW + 4 * sizeof(float)));
  EXPECT_FALSE(is_written(arena, kW + 5 * sizeof(float)));
  EXPECT_TRUE(is_written(arena, kA + 25 * 2 * sizeof(float) - 4));
  EXPECT_EQ(arena.get<int>(kInfo, 1).at(0), 0);
}

TEST_F(CusolverTest, BatchesHaveAReportForEachMatrix) {
  const Arena arena;
  arena.fill(0xff);
  ASSERT_EQ(cusolverDnSsyevjBatched(handle_, 1, 0, 4, arena.at(kA), 4, arena.at(4096), nullptr, 0,
                                    arena.at(kInfo), nullptr, 3),
            0);
  EXPECT_EQ(arena.get<int>(kInfo, 4), (std::vector<int>{0, 0, 0, -1}));
  EXPECT_TRUE(is_written(arena, kA + 3 * 16 * sizeof(float) - 4));
  EXPECT_FALSE(is_written(arena, kA + 3 * 16 * sizeof(float)));
  EXPECT_TRUE(is_written(arena, 4096 + 11 * sizeof(float)));
}

TEST_F(CusolverTest, TablesOfMatricesAreFollowed) {
  const Arena arena;
  arena.fill(0xff);
  arena.put(0, std::vector<float*>{arena.at(kA), arena.at(131072)});
  ASSERT_EQ(cusolverDnSpotrfBatched(handle_, 0, 3, arena.at(0), 3, arena.at(kInfo), 2), 0);
  EXPECT_TRUE(is_written(arena, kA + 8 * sizeof(float)));
  EXPECT_FALSE(is_written(arena, kA + 9 * sizeof(float)));
  EXPECT_TRUE(is_written(arena, 131072));
  EXPECT_EQ(arena.get<int>(kInfo, 3), (std::vector<int>{0, 0, -1}));
}

TEST_F(CusolverTest, SingularVectorsAreThoseOfTheJob) {
  const Arena arena;
  constexpr size_t kS = 4096;
  constexpr size_t kU = 131072;
  constexpr size_t kV = 262144;
  const auto factor = [&](signed char job_u, signed char job_v) {
    arena.fill(0xff);
    EXPECT_EQ(
        cusolverDnSgesvd(handle_, job_u, job_v, 6, 4, arena.at(kA), 6, arena.at(kS), arena.at(kU),
                         6, arena.at(kV), 4, nullptr, 0, nullptr, arena.at(kInfo)),
        0);
  };
  factor('S', 'N');
  EXPECT_TRUE(is_written(arena, kS + 3 * sizeof(float)));
  EXPECT_FALSE(is_written(arena, kS + 4 * sizeof(float)));
  EXPECT_TRUE(is_written(arena, kU + 23 * sizeof(float)));
  EXPECT_FALSE(is_written(arena, kU + 24 * sizeof(float)));
  EXPECT_FALSE(is_written(arena, kV));
  factor('A', 'A');
  EXPECT_TRUE(is_written(arena, kU + 35 * sizeof(float)));
  EXPECT_TRUE(is_written(arena, kV + 15 * sizeof(float)));
}

TEST_F(CusolverTest, SingularValuesOfStridedMatricesLeaveThem) {
  const Arena arena;
  constexpr size_t kS = 4096;
  std::array<double, 2> residuals{7, 7};
  arena.fill(0xff);
  ASSERT_EQ(cusolverDnSgesvdaStridedBatched(handle_, 1, 2, 6, 2, arena.at(kA), 6, 20, arena.at(kS),
                                            3, arena.at(131072), 6, 12, arena.at(262144), 2, 4,
                                            nullptr, 0, arena.at(kInfo), residuals.data(), 2),
            0);
  EXPECT_EQ(residuals, (std::array<double, 2>{0, 0}));
  EXPECT_FALSE(is_written(arena, kA));
  EXPECT_TRUE(is_written(arena, kS + 4 * sizeof(float)));
  EXPECT_FALSE(is_written(arena, kS + 5 * sizeof(float)));
  EXPECT_TRUE(is_written(arena, 131072 + 23 * sizeof(float)));
  EXPECT_TRUE(is_written(arena, 262144 + 7 * sizeof(float)));
}

TEST_F(CusolverTest, HandlesKeepTheirStreamAndAnswerForWorkAreas) {
  cudaStream_t stream = nullptr;
  cudaStream_t found = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  EXPECT_EQ(cusolverDnSetStream(handle_, stream), 0);
  EXPECT_EQ(cusolverDnGetStream(handle_, &found), 0);
  EXPECT_EQ(found, stream);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  int size = 0;
  EXPECT_EQ(cusolverDnSpotrf_bufferSize(handle_, 0, 100, nullptr, 100, &size), 0);
  EXPECT_GT(size, 0);
  EXPECT_EQ(cusolverDnSpotrf_bufferSize(handle_, 0, -1, nullptr, 100, &size), kInvalidValue);
  EXPECT_EQ(cusolverDnSpotrf_bufferSize(nullptr, 0, 1, nullptr, 1, &size), kNotInitialized);
}

TEST_F(CusolverTest, ParametersAreMadeAndAnIterationHasConverged) {
  void* parameters = nullptr;
  EXPECT_EQ(cusolverDnCreateParams(&parameters), 0);
  EXPECT_EQ(cusolverDnDestroyParams(parameters), 0);
  EXPECT_EQ(cusolverDnCreateGesvdjInfo(&parameters), 0);
  double residual = 7;
  EXPECT_EQ(cusolverDnXgesvdjGetResidual(handle_, parameters, &residual), 0);
  EXPECT_EQ(residual, 0);
  EXPECT_EQ(cusolverDnDestroyGesvdjInfo(parameters), 0);
}

TEST_F(CusolverTest, RefusesWhatItHasNoHandleOrRoutineFor) {
  EXPECT_EQ(cusolverDnCreate(nullptr), kInvalidValue);
  EXPECT_EQ(cusolverDnSpotrf(nullptr, 0, 1, nullptr, 1, nullptr, 0, nullptr), kNotInitialized);
  EXPECT_EQ(cusolverDnSsygvd(), kNotSupported);
}

TEST_F(CusolverTest, VersionIsTheSameInEachForm) {
  std::array<int, 3> parts{};
  int version = 0;
  for (int i = 0; i < 3; ++i) ASSERT_EQ(cusolverGetProperty(i, &parts.at(i)), 0);
  ASSERT_EQ(cusolverGetVersion(&version), 0);
  EXPECT_EQ(version, 1000 * parts[0] + 100 * parts[1] + parts[2]);
  EXPECT_EQ(parts[0], 12);
  EXPECT_EQ(cusolverGetProperty(3, parts.data()), kInvalidValue);
}

}  // namespace
}  // namespace cusolver_test
