// Triangular solves, scaling, and routines over matrices whose addresses lie in device memory.

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "tests/simgpu/arena.h"

// The binary interface, as far as it is used here; NVIDIA's header is not among the toolkit's.
extern "C" {
int cublasCreate_v2(void** handle);
int cublasDestroy_v2(void* handle);
int cublasStrsm_v2(void* handle, int side, int uplo, int transpose, int diagonal, int m, int n,
                   const float* alpha, const float* a, int lda, float* b, int ldb);
int cublasSscal_v2(void* handle, int n, const float* factor, float* x, int step);
int cublasSgetrfBatched(void* handle, int n, float* const* a, int lda, int* pivots, int* info,
                        int count);
int cublasSgetrsBatched(void* handle, int transpose, int n, int sides, const float* const* a,
                        int lda, const int* pivots, float* const* b, int ldb, int* report,
                        int count);
int cublasSgetriBatched(void* handle, int n, const float* const* a, int lda, const int* pivots,
                        float* const* c, int ldc, int* info, int count);
int cublasSgeqrfBatched(void* handle, int m, int n, float* const* a, int lda, float* const* tau,
                        int* report, int count);
int cublasStrsmBatched(void* handle, int side, int uplo, int transpose, int diagonal, int m, int n,
                       const float* alpha, const float* const* a, int lda, float* const* b, int ldb,
                       int count);
int cublasSgemmBatched(void* handle, int transa, int transb, int m, int n, int k,
                       const float* alpha, const float* const* a, int lda, const float* const* b,
                       int ldb, const float* beta, float* const* c, int ldc, int count);
int cublasGemmBatchedEx(void* handle, int transa, int transb, int m, int n, int k,
                        const void* alpha, const void* const* a, int a_type, int lda,
                        const void* const* b, int b_type, int ldb, const void* beta, void* const* c,
                        int c_type, int ldc, int count, int compute_type, int algorithm);
int cublasSetPointerMode_v2(void* handle, int mode);
}

namespace cublas_batched_test {
namespace {

using simgpu_test::Arena;
using simgpu_test::depends_on;
using simgpu_test::written_by;

constexpr int kNotInitialized = 1;
constexpr int kInvalidValue = 7;
constexpr float kOne = 1.0F;

class BatchedTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(cudaFree(nullptr), cudaSuccess);  // makes the context
    ASSERT_EQ(cublasCreate_v2(&handle_), 0);
  }
  void TearDown() override { EXPECT_EQ(cublasDestroy_v2(handle_), 0); }

  /// A table of the matrices at these bytes of the arena, which lies at `byte` of it.
  static float** table(const Arena& arena, size_t byte, const std::vector<size_t>& matrices) {
    std::vector<float*> addresses;
    for (const size_t matrix : matrices) addresses.push_back(arena.at(matrix));
    arena.put(byte, addresses);
    return reinterpret_cast<float**>(arena.at(byte));
  }

  void* handle_ = nullptr;
};

TEST_F(BatchedTest, TriangularSolveStaysWithinItsMatrices) {
  const Arena arena;
  constexpr size_t kA = 4096;   // 6 x 6, 8 apart
  constexpr size_t kB = 65536;  // 6 x 10, 20 apart
  const auto solve = [&] {
    return cublasStrsm_v2(handle_, 0, 0, 0, 0, 6, 10, &kOne, arena.at(kA), 8, arena.at(kB), 20);
  };
  EXPECT_EQ(written_by(arena, solve), std::pair(kB, kB + (9 * 20 + 6) * sizeof(float)));
  EXPECT_TRUE(depends_on(arena, kA, arena.at(kB), solve));
  EXPECT_TRUE(depends_on(arena, kB, arena.at(kB), solve)) << "what is overwritten is read";
  EXPECT_FALSE(depends_on(arena, kA + (5 * 8 + 6) * sizeof(float), arena.at(kB), solve));
}

TEST_F(BatchedTest, TriangularFactorOfTheRightSideHasTheOtherExtent) {
  const Arena arena;
  constexpr size_t kA = 4096;  // 10 x 10
  constexpr size_t kB = 65536;
  const auto solve = [&] {
    return cublasStrsm_v2(handle_, 1, 0, 0, 0, 6, 10, &kOne, arena.at(kA), 10, arena.at(kB), 6);
  };
  EXPECT_TRUE(depends_on(arena, kA + 99 * sizeof(float), arena.at(kB), solve));
  EXPECT_FALSE(depends_on(arena, kA + 100 * sizeof(float), arena.at(kB), solve));
}

TEST_F(BatchedTest, ScalingStaysWithinItsVector) {
  const Arena arena;
  const auto scale = [&] { return cublasSscal_v2(handle_, 10, &kOne, arena.at(4096), 3); };
  EXPECT_EQ(written_by(arena, scale), std::pair(size_t{4096}, 4096 + 28 * sizeof(float)));
  EXPECT_TRUE(depends_on(arena, 4096, arena.at(4096), scale));
}

TEST_F(BatchedTest, FactorsAreWrittenBehindTheirAddressesWithPivotsAndReports) {
  const Arena arena;
  constexpr size_t kPivots = 4096;
  constexpr size_t kReports = 8192;
  arena.fill(0xff);
  float** const matrices = table(arena, 0, {65536, 131072});
  ASSERT_EQ(cublasSgetrfBatched(handle_, 3, matrices, 4, reinterpret_cast<int*>(arena.at(kPivots)),
                                reinterpret_cast<int*>(arena.at(kReports)), 2),
            0);
  EXPECT_EQ(arena.get<int>(kPivots, 7), (std::vector<int>{1, 2, 3, 1, 2, 3, -1}));
  EXPECT_EQ(arena.get<int>(kReports, 3), (std::vector<int>{0, 0, -1}));
  for (const size_t matrix : {size_t{65536}, size_t{131072}}) {
    const std::vector<std::uint32_t> numbers = arena.get<std::uint32_t>(matrix, 12);
    EXPECT_NE(numbers.at(0), ~0U);
    EXPECT_NE(numbers.at(10), ~0U) << "the last one of 3 columns, 4 apart";
    EXPECT_EQ(numbers.at(11), ~0U);
    EXPECT_EQ(arena.get<std::uint32_t>(matrix - 4, 1).at(0), ~0U);
  }
}

TEST_F(BatchedTest, SolutionsFollowFromBothMatrices) {
  const Arena arena;
  int report = 7;
  const auto solve = [&](unsigned char of_a, unsigned char of_b) {
    arena.fill(0);
    arena.set(65536, of_a);
    arena.set(131072, of_b);
    float** const a = table(arena, 0, {65536});
    float** const b = table(arena, 1024, {131072});
    EXPECT_EQ(cublasSgetrsBatched(handle_, 0, 4, 2, a, 4, nullptr, b, 4, &report, 1), 0);
    return arena.get<float>(131072, 8);
  };
  const std::vector<float> first = solve(1, 1);
  EXPECT_EQ(report, 0) << "on the host";
  EXPECT_EQ(solve(1, 1), first);
  EXPECT_NE(solve(2, 1), first);
  EXPECT_NE(solve(1, 2), first);
}

TEST_F(BatchedTest, InversesAndReflectorsAreWrittenWhereTheirTablesSay) {
  const Arena arena;
  arena.fill(0xff);
  float** const a = table(arena, 0, {65536});
  float** const c = table(arena, 1024, {131072});
  auto* const info = reinterpret_cast<int*>(arena.at(2048));
  ASSERT_EQ(cublasSgetriBatched(handle_, 2, a, 2, nullptr, c, 2, info, 1), 0);
  EXPECT_EQ(arena.get<std::uint32_t>(65536, 1).at(0), ~0U) << "the factors stay";
  EXPECT_NE(arena.get<std::uint32_t>(131072, 1).at(0), ~0U);
  EXPECT_EQ(arena.get<int>(2048, 1).at(0), 0);
  float** const tau = table(arena, 4096, {262144});
  int report = 7;
  ASSERT_EQ(cublasSgeqrfBatched(handle_, 4, 2, a, 4, tau, &report, 1), 0);
  EXPECT_EQ(report, 0);
  EXPECT_NE(arena.get<std::uint32_t>(65536, 1).at(0), ~0U);
  const std::vector<std::uint32_t> reflectors = arena.get<std::uint32_t>(262144, 3);
  EXPECT_NE(reflectors.at(1), ~0U);
  EXPECT_EQ(reflectors.at(2), ~0U);
}

TEST_F(BatchedTest, SolutionsAndInversesFollowFromThePivots) {
  const Arena arena;
  constexpr size_t kPivots = 4096;
  constexpr size_t kResult = 131072;
  const auto* const pivots = reinterpret_cast<const int*>(arena.at(kPivots));
  const auto solve = [&] {
    int report = 0;
    float** const a = table(arena, 0, {65536, 73728});
    float** const b = table(arena, 1024, {kResult, 139264});
    return cublasSgetrsBatched(handle_, 0, 4, 2, a, 4, pivots, b, 4, &report, 2);
  };
  const auto invert = [&] {
    float** const a = table(arena, 0, {65536, 73728});
    float** const c = table(arena, 1024, {kResult, 139264});
    return cublasSgetriBatched(handle_, 4, a, 4, pivots, c, 4, nullptr, 2);
  };
  constexpr size_t kEnd = kPivots + 2 * 4 * sizeof(int);
  for (const size_t byte : {kPivots, kEnd - 1}) {
    EXPECT_TRUE(depends_on(arena, byte, arena.at(kResult), solve)) << byte;
    EXPECT_TRUE(depends_on(arena, byte, arena.at(kResult), invert)) << byte;
  }
  EXPECT_FALSE(depends_on(arena, kEnd, arena.at(kResult), solve));
  EXPECT_FALSE(depends_on(arena, kEnd, arena.at(kResult), invert));
}

TEST_F(BatchedTest, FactorsOnTheDeviceAreReadAndAResultUnlessItIsScaledByZero) {
  const Arena arena;
  constexpr size_t kAlpha = 4096;
  constexpr size_t kBeta = 4104;
  constexpr size_t kResult = 196608;
  constexpr float kNone = 0;
  const auto multiply = [&](const float* alpha, const float* beta) {
    return [&, alpha, beta] {
      float** const a = table(arena, 0, {65536});
      float** const b = table(arena, 1024, {131072});
      float** const c = table(arena, 2048, {kResult});
      return cublasSgemmBatched(handle_, 0, 0, 4, 4, 4, alpha, a, 4, b, 4, beta, c, 4, 1);
    };
  };
  const auto multiply_halves = [&](const float* alpha, const float* beta) {
    return [&, alpha, beta] {
      constexpr int kHalf = 2;
      constexpr int kComputesSingle = 68;
      const auto tables = [&](size_t byte, size_t matrix) {
        return reinterpret_cast<void**>(table(arena, byte, {matrix}));
      };
      return cublasGemmBatchedEx(handle_, 0, 0, 4, 4, 4, alpha, tables(0, 65536), kHalf, 4,
                                 tables(1024, 131072), kHalf, 4, beta, tables(2048, kResult), kHalf,
                                 4, 1, kComputesSingle, 0);
    };
  };
  const auto solve = [&] {
    float** const a = table(arena, 0, {65536});
    float** const b = table(arena, 1024, {kResult});
    return cublasStrsmBatched(handle_, 0, 0, 0, 0, 4, 4, arena.at(kAlpha), a, 4, b, 4, 1);
  };
  float* const result = arena.at(kResult);
  EXPECT_FALSE(depends_on(arena, kResult, result, multiply(&kOne, &kNone)));
  EXPECT_TRUE(depends_on(arena, kResult, result, multiply(&kOne, &kOne)));
  EXPECT_FALSE(depends_on(arena, kResult, result, multiply_halves(&kOne, &kNone)));
  EXPECT_TRUE(depends_on(arena, kResult, result, multiply_halves(&kOne, &kOne)));
  ASSERT_EQ(cublasSetPointerMode_v2(handle_, 1), 0);
  for (const size_t byte : {kAlpha, kAlpha + 3, kBeta, kBeta + 3, kResult}) {
    EXPECT_TRUE(depends_on(arena, byte, result, multiply(arena.at(kAlpha), arena.at(kBeta))))
        << byte;
    EXPECT_TRUE(depends_on(arena, byte, result, multiply_halves(arena.at(kAlpha), arena.at(kBeta))))
        << byte;
  }
  EXPECT_TRUE(depends_on(arena, kAlpha + 3, result, solve));
  EXPECT_FALSE(depends_on(arena, kAlpha + 4, result, solve));
}

TEST_F(BatchedTest, RefusesWhatTheDocumentationRefuses) {
  EXPECT_EQ(cublasSgetrfBatched(nullptr, 1, nullptr, 1, nullptr, nullptr, 1), kNotInitialized);
  EXPECT_EQ(cublasSgetrfBatched(handle_, 1, nullptr, 1, nullptr, nullptr, -1), kInvalidValue);
  EXPECT_EQ(cublasSgetrfBatched(handle_, 1, nullptr, 1, nullptr, nullptr, 0), 0);
  EXPECT_EQ(cublasStrsm_v2(handle_, 0, 0, 0, 0, 1, 1, nullptr, nullptr, 1, nullptr, 1),
            kInvalidValue);
  EXPECT_EQ(cublasSscal_v2(handle_, 1, nullptr, nullptr, 1), kInvalidValue);
}

}  // namespace
}  // namespace cublas_batched_test
