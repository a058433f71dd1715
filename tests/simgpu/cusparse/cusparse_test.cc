// simgpu's stand-in for cuSPARSE: descriptors, products and tridiagonal solutions.

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <string>

#include "tests/simgpu/arena.h"

// The binary interface, as far as it is used here; NVIDIA's header is not among every toolkit's.
extern "C" {
int cusparseCreate(void** handle);
int cusparseDestroy(void* handle);
int cusparseSetStream(void* handle, cudaStream_t stream);
int cusparseGetStream(void* handle, cudaStream_t* stream);
int cusparseGetVersion(void* handle, int* version);
int cusparseGetProperty(int property, int* value);
const char* cusparseGetErrorName(int status);
int cusparseCreateMatDescr(void** kind);
int cusparseDestroyMatDescr(void* kind);
int cusparseSetMatFillMode(void* kind, int mode);
int cusparseGetMatFillMode(void* kind);
int cusparseCreateCsr(void** matrix, int64_t rows, int64_t columns, int64_t entries, void* offsets,
                      void* indices, void* values, int offset_type, int index_type, int base,
                      int value_type);
int cusparseCreateCoo(void** matrix, int64_t rows, int64_t columns, int64_t entries, void* rows_of,
                      void* columns_of, void* values, int index_type, int base, int value_type);
int cusparseDestroySpMat(void* matrix);
int cusparseSpMatGetSize(void* matrix, int64_t* rows, int64_t* columns, int64_t* entries);
int cusparseCreateDnVec(void** vector, int64_t size, void* values, int type);
int cusparseDestroyDnVec(void* vector);
int cusparseCreateDnMat(void** matrix, int64_t rows, int64_t columns, int64_t leading, void* values,
                        int type, int order);
int cusparseDestroyDnMat(void* matrix);
int cusparseSpMV_bufferSize(void* handle, int operation, const void* alpha, void* a, void* x,
                            const void* beta, void* y, int type, int algorithm, size_t* bytes);
int cusparseSpMV(void* handle, int operation, const void* alpha, void* a, void* x, const void* beta,
                 void* y, int type, int algorithm, void* buffer);
int cusparseSpMM(void* handle, int of_a, int of_b, const void* alpha, void* a, void* b,
                 const void* beta, void* c, int type, int algorithm, void* buffer);
int cusparseSDDMM(void* handle, int of_a, int of_b, const void* alpha, void* a, void* b,
                  const void* beta, void* c, int type, int algorithm, void* buffer);
int cusparseSetPointerMode(void* handle, int mode);
int cusparseDgtsv2(void* handle, int m, int n, const void* lower, const void* diagonal,
                   const void* upper, void* b, int ldb, void* buffer);
int cusparseScsrilu02();
}

namespace cusparse_test {
namespace {

using simgpu_test::Arena;
using simgpu_test::depends_on;
using simgpu_test::written_by;

constexpr int kNotInitialized = 1;
constexpr int kInvalidValue = 3;
constexpr int kNotSupported = 10;
constexpr int k32Bits = 2;
constexpr int k64Bits = 3;
constexpr int kFloat = 0;
constexpr int kByRows = 2;
constexpr float kOne = 1.0F;

class CusparseTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(cudaFree(nullptr), cudaSuccess);  // makes the context
    ASSERT_EQ(cusparseCreate(&handle_), 0);
  }
  void TearDown() override { EXPECT_EQ(cusparseDestroy(handle_), 0); }

  void* handle_ = nullptr;
};

TEST_F(CusparseTest, ProductWithAVectorReadsAllArraysAndWritesTheResult) {
  const Arena arena;
  constexpr size_t kOffsets = 4096;
  constexpr size_t kIndices = 8192;
  constexpr size_t kValues = 16384;
  constexpr size_t kX = 32768;
  constexpr size_t kY = 65536;
  std::array<void*, 3> made{};
  ASSERT_EQ(cusparseCreateCsr(&made[0], 10, 20, 30, arena.at(kOffsets), arena.at(kIndices),
                              arena.at(kValues), k64Bits, k32Bits, 0, kFloat),
            0);
  ASSERT_EQ(cusparseCreateDnVec(&made[1], 20, arena.at(kX), kFloat), 0);
  ASSERT_EQ(cusparseCreateDnVec(&made[2], 10, arena.at(kY), kFloat), 0);
  size_t bytes = 0;
  EXPECT_EQ(cusparseSpMV_bufferSize(handle_, 0, &kOne, made[0], made[1], &kOne, made[2], kFloat, 0,
                                    &bytes),
            0);
  EXPECT_GT(bytes, 0U);
  const auto multiply = [&] {
    return cusparseSpMV(handle_, 0, &kOne, made[0], made[1], &kOne, made[2], kFloat, 0, nullptr);
  };
  EXPECT_EQ(written_by(arena, multiply), std::pair(kY, kY + 10 * sizeof(float)));
  for (const auto& [begin, size] :
       {std::pair{kOffsets, 11 * 8}, {kIndices, 30 * 4}, {kValues, 30 * 4}, {kX, 20 * 4}}) {
    EXPECT_TRUE(depends_on(arena, begin, arena.at(kY), multiply)) << begin;
    EXPECT_TRUE(depends_on(arena, begin + size - 1, arena.at(kY), multiply)) << begin;
    EXPECT_FALSE(depends_on(arena, begin + size, arena.at(kY), multiply)) << begin;
  }
  EXPECT_EQ(cusparseDestroySpMat(made[0]), 0);
  EXPECT_EQ(cusparseDestroyDnVec(made[1]), 0);
  EXPECT_EQ(cusparseDestroyDnVec(made[2]), 0);
}

TEST_F(CusparseTest, ProductOfCoordinatesWritesADenseMatrixByRows) {
  const Arena arena;
  constexpr size_t kRows = 4096;
  constexpr size_t kC = 65536;
  std::array<void*, 3> made{};
  ASSERT_EQ(cusparseCreateCoo(&made[0], 10, 20, 30, arena.at(kRows), arena.at(8192),
                              arena.at(16384), k32Bits, 0, kFloat),
            0);
  ASSERT_EQ(cusparseCreateDnMat(&made[1], 20, 4, 6, arena.at(32768), kFloat, kByRows), 0);
  ASSERT_EQ(cusparseCreateDnMat(&made[2], 10, 4, 6, arena.at(kC), kFloat, kByRows), 0);
  const auto multiply = [&] {
    return cusparseSpMM(handle_, 0, 0, &kOne, made[0], made[1], &kOne, made[2], kFloat, 0, nullptr);
  };
  EXPECT_EQ(written_by(arena, multiply), std::pair(kC, kC + (9 * 6 + 4) * sizeof(float)));
  EXPECT_TRUE(depends_on(arena, kRows + 30 * 4 - 1, arena.at(kC), multiply));
  EXPECT_FALSE(depends_on(arena, kRows + 30 * 4, arena.at(kC), multiply));
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t entries = 0;
  EXPECT_EQ(cusparseSpMatGetSize(made[0], &rows, &columns, &entries), 0);
  EXPECT_EQ((std::array{rows, columns, entries}), (std::array<int64_t, 3>{10, 20, 30}));
  EXPECT_EQ(cusparseDestroySpMat(made[0]), 0);
  EXPECT_EQ(cusparseDestroyDnMat(made[1]), 0);
  EXPECT_EQ(cusparseDestroyDnMat(made[2]), 0);
}

TEST_F(CusparseTest, ResultIsReadUnlessBetaIsZero) {
  const Arena arena;
  constexpr size_t kValues = 16384;
  constexpr size_t kB = 32768;
  constexpr size_t kC = 65536;
  constexpr size_t kBeta = 131072;
  std::array<void*, 4> made{};
  ASSERT_EQ(cusparseCreateCsr(&made[0], 10, 10, 30, arena.at(4096), arena.at(8192),
                              arena.at(kValues), k32Bits, k32Bits, 0, kFloat),
            0);
  ASSERT_EQ(cusparseCreateDnMat(&made[1], 10, 10, 10, arena.at(kB), kFloat, kByRows), 0);
  ASSERT_EQ(cusparseCreateDnMat(&made[2], 10, 10, 10, arena.at(kC), kFloat, kByRows), 0);
  constexpr float kNone = 0;
  const auto multiply = [&](const float* beta, const float* alpha = &kOne) {
    return [&, alpha, beta] {
      return cusparseSpMM(handle_, 0, 0, alpha, made[0], made[1], beta, made[2], kFloat, 0,
                          nullptr);
    };
  };
  const auto sample = [&](const float* beta) {
    return [&, beta] {
      return cusparseSDDMM(handle_, 0, 0, &kOne, made[1], made[2], beta, made[0], kFloat, 0,
                           nullptr);
    };
  };
  EXPECT_FALSE(depends_on(arena, kC, arena.at(kC), multiply(&kNone)));
  EXPECT_TRUE(depends_on(arena, kC, arena.at(kC), multiply(&kOne)));
  EXPECT_FALSE(depends_on(arena, kValues, arena.at(kValues), sample(&kNone)));
  EXPECT_TRUE(depends_on(arena, kValues, arena.at(kValues), sample(&kOne)));
  EXPECT_TRUE(depends_on(arena, kB, arena.at(kValues), sample(&kNone)));
  EXPECT_EQ(
      cusparseSDDMM(handle_, 0, 0, &kOne, made[1], made[2], nullptr, made[0], kFloat, 0, nullptr),
      kInvalidValue);
  // On the device it is not known to be zero, and it is read itself.
  ASSERT_EQ(cusparseSetPointerMode(handle_, 1), 0);
  EXPECT_TRUE(depends_on(arena, kC, arena.at(kC), multiply(arena.at(kBeta), arena.at(kBeta + 4))));
  EXPECT_TRUE(
      depends_on(arena, kBeta, arena.at(kC), multiply(arena.at(kBeta), arena.at(kBeta + 4))));
  EXPECT_EQ(cusparseDestroySpMat(made[0]), 0);
  for (const int matrix : {1, 2}) EXPECT_EQ(cusparseDestroyDnMat(made.at(matrix)), 0);
}

TEST_F(CusparseTest, TridiagonalSolutionFollowsFromTheDiagonals) {
  const Arena arena;
  constexpr size_t kB = 65536;
  const auto solve = [&] {
    return cusparseDgtsv2(handle_, 8, 3, arena.at(4096), arena.at(8192), arena.at(16384),
                          arena.at(kB), 10, nullptr);
  };
  EXPECT_EQ(written_by(arena, solve), std::pair(kB, kB + (2 * 10 + 8) * sizeof(double)));
  for (const size_t begin : {size_t{4096}, size_t{8192}, size_t{16384}}) {
    EXPECT_TRUE(depends_on(arena, begin + 63, arena.at(kB), solve)) << begin;
    EXPECT_FALSE(depends_on(arena, begin + 64, arena.at(kB), solve)) << begin;
  }
}

TEST_F(CusparseTest, KeepsWhatIsSet) {
  cudaStream_t stream = nullptr;
  cudaStream_t found = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  EXPECT_EQ(cusparseSetStream(handle_, stream), 0);
  EXPECT_EQ(cusparseGetStream(handle_, &found), 0);
  EXPECT_EQ(found, stream);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  void* kind = nullptr;
  ASSERT_EQ(cusparseCreateMatDescr(&kind), 0);
  EXPECT_EQ(cusparseSetMatFillMode(kind, 1), 0);
  EXPECT_EQ(cusparseGetMatFillMode(kind), 1);
  EXPECT_EQ(cusparseDestroyMatDescr(kind), 0);
}

TEST_F(CusparseTest, RefusesWhatItHasNoHandleMatrixOrRoutineFor) {
  EXPECT_EQ(cusparseCreate(nullptr), kInvalidValue);
  EXPECT_EQ(cusparseDestroy(nullptr), kNotInitialized);
  EXPECT_EQ(cusparseSpMV(handle_, 0, &kOne, nullptr, nullptr, &kOne, nullptr, 0, 0, nullptr),
            kInvalidValue);
  EXPECT_EQ(cusparseScsrilu02(), kNotSupported);
  EXPECT_EQ(std::string(cusparseGetErrorName(kNotSupported)), "CUSPARSE_STATUS_NOT_SUPPORTED");
}

TEST_F(CusparseTest, VersionIsTheSameInEachForm) {
  std::array<int, 3> parts{};
  int version = 0;
  for (int i = 0; i < 3; ++i) ASSERT_EQ(cusparseGetProperty(i, &parts.at(i)), 0);
  ASSERT_EQ(cusparseGetVersion(handle_, &version), 0);
  EXPECT_EQ(version, 1000 * parts[0] + 100 * parts[1] + parts[2]);
  EXPECT_EQ(cusparseGetProperty(3, parts.data()), kInvalidValue);
}

}  // namespace
}  // namespace cusparse_test
