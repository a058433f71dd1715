// simgpu's stand-ins for cuBLAS: a routine is one launch that reads its operands and writes its
// result, and what is not there is refused.

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <utility>
#include <vector>

#include "tests/hang_limit.h"
#include "tests/simgpu/arena.h"

// The binary interface, as far as it is used here; NVIDIA's header is not among the toolkit's.
extern "C" {
int cublasCreate_v2(void** handle);
int cublasDestroy_v2(void* handle);
int cublasSetPointerMode_v2(void* handle, int mode);
int cublasGetPointerMode_v2(void* handle, int* mode);
int cublasSetStream_v2(void* handle, cudaStream_t stream);
int cublasGetStream_v2(void* handle, cudaStream_t* stream);
int cublasSgemm_v2(void* handle, int transa, int transb, int m, int n, int k, const float* alpha,
                   const float* a, int lda, const float* b, int ldb, const float* beta, float* c,
                   int ldc);
int cublasGemmEx(void* handle, int transa, int transb, int m, int n, int k, const void* alpha,
                 const void* a, int a_type, int lda, const void* b, int b_type, int ldb,
                 const void* beta, void* c, int c_type, int ldc, int compute_type, int algorithm);
int cublasSgemmStridedBatched(void* handle, int transa, int transb, int m, int n, int k,
                              const float* alpha, const float* a, int lda, long long stride_a,
                              const float* b, int ldb, long long stride_b, const float* beta,
                              float* c, int ldc, long long stride_c, int batches);
int cublasGemmStridedBatchedEx(void* handle, int transa, int transb, int m, int n, int k,
                               const void* alpha, const void* a, int a_type, int lda,
                               long long stride_a, const void* b, int b_type, int ldb,
                               long long stride_b, const void* beta, void* c, int c_type, int ldc,
                               long long stride_c, int batches, int compute_type, int algorithm);
int cublasSgemv_v2(void* handle, int transpose, int m, int n, const float* alpha, const float* a,
                   int lda, const float* x, int x_step, const float* beta, float* y, int y_step);
int cublasSdot_v2(void* handle, int n, const float* x, int x_step, const float* y, int y_step,
                  float* result);
int cublasSsyrk_v2(void* handle, int uplo, int transpose, int n, int k, const float* alpha,
                   const float* a, int lda, const float* beta, float* c, int ldc);
int cublasSetSmCountTarget(void* handle, int multiprocessors);
int cublasGetSmCountTarget(void* handle, int* multiprocessors);
int cublasGetVersion_v2(void* handle, int* version);
int cublasGetProperty(int property, int* value);
const char* cublasGetStatusName(int status);
const char* cublasGetStatusString(int status);
int cublasLtMatmulDescGetAttribute(void* product, int attribute, void* value, size_t bytes,
                                   size_t* written);
int cublasLtMatrixLayoutGetAttribute(void* layout, int attribute, void* value, size_t bytes,
                                     size_t* written);
int cublasLtMatmulAlgoInit(void* handle, int compute_type, int scale_type, int a_type, int b_type,
                           int c_type, int d_type, int number, void* algorithm);
int cublasLtMatmulAlgoConfigSetAttribute(void* algorithm, int attribute, const void* value,
                                         size_t bytes);
int cublasLtMatmulAlgoConfigGetAttribute(const void* algorithm, int attribute, void* value,
                                         size_t bytes, size_t* written);
int cublasLtMatmulAlgoCheck(void* handle, void* product, void* a, void* b, void* c, void* d,
                            const void* algorithm, void* result);
int cublasLtMatmulDescCreate(void** product, int compute_type, int scale_type);
int cublasLtMatmulDescDestroy(void* product);
int cublasLtMatmulDescSetAttribute(void* product, int attribute, const void* value, size_t bytes);
int cublasLtMatrixLayoutCreate(void** layout, int type, uint64_t rows, uint64_t columns,
                               int64_t leading);
int cublasLtMatrixLayoutSetAttribute(void* layout, int attribute, const void* value, size_t bytes);
int cublasLtMatrixLayoutDestroy(void* layout);
int cublasLtMatmulPreferenceCreate(void** preference);
int cublasLtMatmulPreferenceDestroy(void* preference);
int cublasLtMatmulAlgoGetHeuristic(void* handle, void* product, void* a, void* b, void* c, void* d,
                                   void* preference, int requested, void* results, int* returned);
int cublasLtMatmul(void* handle, void* product, const void* alpha, const void* a, void* a_layout,
                   const void* b, void* b_layout, const void* beta, const void* c, void* c_layout,
                   void* d, void* d_layout, const void* algorithm, void* workspace,
                   size_t workspace_bytes, cudaStream_t stream);
}

namespace cublas_test {
namespace {

using simgpu_test::Arena;
using simgpu_test::depends_on;
using simgpu_test::written_by;

constexpr int kSuccess = 0;
constexpr int kNotInitialized = 1;
constexpr int kInvalidValue = 7;
constexpr int kNotSupported = 15;
constexpr int kSize = 16;
constexpr float kOne = 1.0F;
constexpr float kZero = 0.0F;

using Matrix = std::vector<float>;

/// Four matrices on the device, a, b, c and bias, and a handle.
class CublasTest : public ::testing::Test {
 protected:
  // Of the whole process, which reads them once: whichever suite comes first.
  static void SetUpTestSuite() {
    setenv("SIMGPU_SINGLE_TFLOPS", "0.001", 1);
    setenv("SIMGPU_HALF_TFLOPS", "0.002", 1);
  }
  void SetUp() override {
    for (float*& matrix : device_) ASSERT_EQ(cudaMalloc(&matrix, kBytes), cudaSuccess);
    ASSERT_EQ(cublasCreate_v2(&handle_), kSuccess);
    reset();
  }
  void TearDown() override {
    EXPECT_EQ(cublasDestroy_v2(handle_), kSuccess);
    for (float* const matrix : device_) EXPECT_EQ(cudaFree(matrix), cudaSuccess);
  }

  /// a, b and bias hold 1, 2 and 3, and c zeros.
  void reset() {
    write(a(), 1);
    write(b(), 2);
    write(c(), 0);
    write(bias(), 3);
  }
  static void write(float* matrix, float value) {
    const Matrix values(kSize * kSize, value);
    ASSERT_EQ(cudaMemcpy(matrix, values.data(), kBytes, cudaMemcpyHostToDevice), cudaSuccess);
  }
  static Matrix read(const float* matrix) {
    Matrix values(kSize * kSize);
    EXPECT_EQ(cudaMemcpy(values.data(), matrix, kBytes, cudaMemcpyDeviceToHost), cudaSuccess);
    return values;
  }
  int gemm(int m = kSize, int n = kSize, int k = kSize) {
    return cublasSgemm_v2(handle_, 0, 0, m, n, k, &kOne, a(), kSize, b(), kSize, &kZero, c(),
                          kSize);
  }

  [[nodiscard]] float* a() const { return device_[0]; }
  [[nodiscard]] float* b() const { return device_[1]; }
  [[nodiscard]] float* c() const { return device_[2]; }
  [[nodiscard]] float* bias() const { return device_[3]; }

  static constexpr size_t kBytes = sizeof(float) * kSize * kSize;
  std::array<float*, 4> device_{};
  void* handle_ = nullptr;
};

/// Arithmetic of 1 GFLOP/s in 32 bits and 2 in 16, so that extents show in times.
class CublasTime : public CublasTest {
 protected:
  /// Expects that `routine` takes `model` milliseconds by events. A busy machine can only be late:
  /// the test waits for a run in time.
  template <typename Call>
  static void expect_time(double model, Call routine) {
    cudaEvent_t start = nullptr;
    cudaEvent_t end = nullptr;
    ASSERT_EQ(cudaEventCreate(&start), cudaSuccess);
    ASSERT_EQ(cudaEventCreate(&end), cudaSuccess);
    const superpipe::testing::HangGuard guard;
    float least = 1e9F;
    while (least > model + 0.3 && !guard.is_over()) {
      ASSERT_EQ(cudaEventRecord(start, nullptr), cudaSuccess);
      ASSERT_EQ(routine(), kSuccess);
      ASSERT_EQ(cudaEventRecord(end, nullptr), cudaSuccess);
      ASSERT_EQ(cudaEventSynchronize(end), cudaSuccess);
      float milliseconds = 0;
      ASSERT_EQ(cudaEventElapsedTime(&milliseconds, start, end), cudaSuccess);
      least = std::min(least, milliseconds);
    }
    EXPECT_NEAR(least, model, 0.3);
  }
  static double product_ms(double m, double n, double k) { return 2 * m * n * k * 1e-6; }
};

TEST_F(CublasTime, FollowsFromTheExtents) {
  expect_time(product_ms(256, 128, 64), [&] { return gemm(256, 128, 64); });
  expect_time(product_ms(256, 128, 192), [&] { return gemm(256, 128, 192); });
}

TEST_F(CublasTime, OfHalfPrecisionIsThatOfItsArithmetic) {
  constexpr int kHalf = 2;
  expect_time(product_ms(256, 128, 192) / 2, [&] {
    return cublasGemmEx(handle_, 0, 0, 256, 128, 192, &kOne, a(), kHalf, kSize, b(), kHalf, kSize,
                        &kZero, c(), kHalf, kSize, 0, 0);
  });
}

TEST_F(CublasTime, OfABatchIsThatOfItsProducts) {
  expect_time(5 * product_ms(128, 64, 64), [&] {
    return cublasSgemmStridedBatched(handle_, 0, 0, 128, 64, 64, &kOne, a(), kSize, 0, b(), kSize,
                                     0, &kZero, c(), kSize, 0, 5);
  });
}

TEST_F(CublasTime, OfAProductWithLayoutsFollowsFromThem) {
  std::array<void*, 4> parts{};
  constexpr int kTransposeA = 3;
  const int transposed = 1;
  ASSERT_EQ(cublasLtMatmulDescCreate(&parts[0], 0, 0), kSuccess);
  ASSERT_EQ(cublasLtMatmulDescSetAttribute(parts[0], kTransposeA, &transposed, sizeof(int)),
            kSuccess);
  ASSERT_EQ(cublasLtMatrixLayoutCreate(&parts[1], 0, 192, 256, 192), kSuccess);
  ASSERT_EQ(cublasLtMatrixLayoutCreate(&parts[2], 0, 192, 128, 192), kSuccess);
  ASSERT_EQ(cublasLtMatrixLayoutCreate(&parts[3], 0, 256, 128, 256), kSuccess);
  expect_time(product_ms(256, 128, 192), [&] {
    return cublasLtMatmul(handle_, parts[0], &kOne, a(), parts[1], b(), parts[2], &kZero, c(),
                          parts[3], c(), parts[3], nullptr, nullptr, 0, nullptr);
  });
  EXPECT_EQ(cublasLtMatmulDescDestroy(parts[0]), kSuccess);
  for (std::size_t layout = 1; layout < parts.size(); ++layout) {
    EXPECT_EQ(cublasLtMatrixLayoutDestroy(parts[layout]), kSuccess);
  }
}

TEST_F(CublasTest, ProductWritesItsResultOnlyAndFromBothOperands) {
  EXPECT_EQ(gemm(), kSuccess);
  const Matrix first = read(c());
  EXPECT_NE(first, Matrix(kSize * kSize, 0));
  EXPECT_EQ(read(a()), Matrix(kSize * kSize, 1));
  EXPECT_EQ(read(b()), Matrix(kSize * kSize, 2));
  reset();
  EXPECT_EQ(gemm(), kSuccess);
  EXPECT_EQ(read(c()), first) << "the same operands give the same bytes";
  for (float* const operand : {a(), b()}) {
    reset();
    write(operand, 5);
    EXPECT_EQ(gemm(), kSuccess);
    EXPECT_NE(read(c()), first);
  }
}

TEST_F(CublasTest, ProductStaysWithinItsMatrices) {
  const Arena arena;
  constexpr size_t kA = 4096;       // 20 x 30, 24 apart
  constexpr size_t kB = 16384;      // 30 x 300, transposed: 300 x 30, 320 apart
  constexpr size_t kC = 65536 + 4;  // 20 x 300, 100 apart
  const auto multiply = [&] {
    return cublasSgemm_v2(handle_, 0, 1, 20, 300, 30, &kOne, arena.at(kA), 24, arena.at(kB), 320,
                          &kZero, arena.at(kC), 100);
  };
  EXPECT_EQ(written_by(arena, multiply), std::pair(kC, kC + (299 * 100 + 20) * sizeof(float)));
  for (const auto& [begin, numbers] : {std::pair{kA, 29 * 24 + 20}, {kB, 29 * 320 + 300}}) {
    const size_t end = begin + static_cast<size_t>(numbers) * sizeof(float);
    for (const auto& [byte, counts] :
         {std::pair{begin - 1, false}, {begin, true}, {end - 1, true}, {end, false}}) {
      EXPECT_EQ(depends_on(arena, byte, arena.at(kC), multiply), counts) << byte;
    }
  }
}

TEST_F(CublasTest, ProductReadsItsResultOnlyWhereItAddsToIt) {
  const Arena arena;
  constexpr size_t kA = 4096;
  constexpr size_t kB = 2 * 4096;
  constexpr size_t kC = 3 * 4096;
  const auto multiply = [&](const float* beta) {
    return cublasSgemm_v2(handle_, 0, 0, 8, 8, 8, &kOne, arena.at(kA), 8, arena.at(kB), 8, beta,
                          arena.at(kC), 8);
  };
  const auto with_vector = [&](const float* beta) {
    return cublasSgemv_v2(handle_, 0, 16, 8, &kOne, arena.at(kA), 16, arena.at(kB), 1, beta,
                          arena.at(kC), 1);
  };
  EXPECT_TRUE(depends_on(arena, kC, arena.at(kC), [&] { return multiply(&kOne); }));
  EXPECT_FALSE(depends_on(arena, kC, arena.at(kC), [&] { return multiply(&kZero); }));
  EXPECT_TRUE(depends_on(arena, kC, arena.at(kC), [&] { return with_vector(&kOne); }));
  EXPECT_FALSE(depends_on(arena, kC, arena.at(kC), [&] { return with_vector(&kZero); }));
  // Of a factor on the device the host does not know whether it is zero.
  ASSERT_EQ(cublasSetPointerMode_v2(handle_, 1), kSuccess);
  const auto on_device = [&] {
    return cublasSgemm_v2(handle_, 0, 0, 8, 8, 8, arena.at(0), arena.at(kA), 8, arena.at(kB), 8,
                          arena.at(64), arena.at(kC), 8);
  };
  EXPECT_TRUE(depends_on(arena, kC, arena.at(kC), on_device));
}

TEST_F(CublasTest, BatchOfHalfPrecisionStaysWithinItsMatrices) {
  const Arena arena;
  constexpr int kHalf = 2;
  constexpr int kSingle = 0;
  constexpr int kInSingle = 68;
  constexpr size_t kC = 65536;
  const auto multiply = [&] {
    return cublasGemmStridedBatchedEx(handle_, 0, 0, 10, 20, 30, &kOne, arena.at(4096), kHalf, 10,
                                      300, arena.at(32768), kHalf, 30, 0, &kZero, arena.at(kC),
                                      kSingle, 10, 1000, 7, kInSingle, 0);
  };
  EXPECT_EQ(written_by(arena, multiply), std::pair(kC, kC + (6 * 1000 + 200) * sizeof(float)));
  constexpr size_t kEndOfA = 4096 + 7 * 300 * 2;
  EXPECT_TRUE(depends_on(arena, kEndOfA - 1, arena.at(kC), multiply));
  EXPECT_FALSE(depends_on(arena, kEndOfA, arena.at(kC), multiply));
  constexpr size_t kEndOfB = 32768 + 600 * 2;  // one matrix for all
  EXPECT_TRUE(depends_on(arena, kEndOfB - 1, arena.at(kC), multiply));
  EXPECT_FALSE(depends_on(arena, kEndOfB, arena.at(kC), multiply));
}

TEST_F(CublasTest, ProductsOfVectorsStayWithinThem) {
  const Arena arena;
  constexpr size_t kY = 4096;
  const auto matrix_by_vector = [&] {
    return cublasSgemv_v2(handle_, 1, 8, 50, &kOne, arena.at(65536), 8, arena.at(32768), 2, &kZero,
                          arena.at(kY), -3);
  };
  EXPECT_EQ(written_by(arena, matrix_by_vector), std::pair(kY, kY + (49 * 3 + 1) * sizeof(float)));
  constexpr size_t kEndOfX = 32768 + (7 * 2 + 1) * sizeof(float);
  EXPECT_TRUE(depends_on(arena, kEndOfX - 1, arena.at(kY), matrix_by_vector));
  EXPECT_FALSE(depends_on(arena, kEndOfX, arena.at(kY), matrix_by_vector));
  ASSERT_EQ(cublasSetPointerMode_v2(handle_, 1), kSuccess);
  const auto vector_by_vector = [&] {
    return cublasSdot_v2(handle_, 10, arena.at(65536), 1, arena.at(32768), 1, arena.at(kY));
  };
  EXPECT_EQ(written_by(arena, vector_by_vector), std::pair(kY, kY + sizeof(float)));
}

TEST_F(CublasTest, EmptyProductTouchesNothing) {
  EXPECT_EQ(gemm(0, kSize, kSize), kSuccess);
  EXPECT_EQ(gemm(kSize, 0, kSize), kSuccess);
  EXPECT_EQ(read(c()), Matrix(kSize * kSize, 0));
}

TEST_F(CublasTest, RefusesWhatTheDocumentationRefuses) {
  EXPECT_EQ(gemm(-1), kInvalidValue);
  EXPECT_EQ(cublasSgemm_v2(nullptr, 0, 0, 1, 1, 1, &kOne, a(), 1, b(), 1, &kZero, c(), 1),
            kNotInitialized);
  EXPECT_EQ(cublasSgemm_v2(handle_, 0, 0, 1, 1, 1, nullptr, a(), 1, b(), 1, &kZero, c(), 1),
            kInvalidValue);
  EXPECT_EQ(cublasSetPointerMode_v2(handle_, 9), kInvalidValue);
  EXPECT_EQ(cublasDestroy_v2(nullptr), kNotInitialized);
  EXPECT_EQ(read(c()), Matrix(kSize * kSize, 0));
}

TEST_F(CublasTest, FactorsOnTheDeviceAreRead) {
  ASSERT_EQ(cublasSetPointerMode_v2(handle_, 1), kSuccess);
  int mode = 0;
  EXPECT_EQ(cublasGetPointerMode_v2(handle_, &mode), kSuccess);
  EXPECT_EQ(mode, 1);
  std::vector<Matrix> results;
  for (const float alpha : {3.0F, 4.0F}) {
    reset();
    write(bias(), alpha);
    EXPECT_EQ(cublasSgemm_v2(handle_, 0, 0, kSize, kSize, kSize, bias(), a(), kSize, b(), kSize,
                             bias(), c(), kSize),
              kSuccess);
    results.push_back(read(c()));
  }
  EXPECT_NE(results[0], results[1]);
}

TEST_F(CublasTest, DotNeedsItsResultOnTheDevice) {
  float result = 7;
  EXPECT_EQ(cublasSdot_v2(handle_, kSize, a(), 1, b(), 1, &result), kNotSupported);
  EXPECT_EQ(result, 7);
  ASSERT_EQ(cublasSetPointerMode_v2(handle_, 1), kSuccess);
  EXPECT_EQ(cublasSdot_v2(handle_, kSize, a(), 1, b(), 1, c()), kSuccess);
  EXPECT_NE(read(c()), Matrix(kSize * kSize, 0));
}

TEST_F(CublasTest, WorkGoesToTheHandlesStream) {
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(cublasSetStream_v2(handle_, stream), kSuccess);
  cudaStream_t found = nullptr;
  EXPECT_EQ(cublasGetStream_v2(handle_, &found), kSuccess);
  EXPECT_EQ(found, stream);
  // An operand that comes late on the same stream is in time.
  EXPECT_EQ(cudaMemsetAsync(a(), 0x40, kBytes, stream), cudaSuccess);
  EXPECT_EQ(gemm(), kSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  const Matrix ordered = read(c());
  reset();
  ASSERT_EQ(cudaMemset(a(), 0x40, kBytes), cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(gemm(), kSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(read(c()), ordered);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

TEST_F(CublasTest, RoutineThatIsNotThereIsRefused) {
  EXPECT_EQ(cublasSsyrk_v2(handle_, 0, 0, 1, 1, &kOne, a(), 1, &kZero, c(), 1), kNotSupported);
}

TEST_F(CublasTest, AHandleKeepsWhatIsSet) {
  int multiprocessors = -1;
  EXPECT_EQ(cublasGetSmCountTarget(handle_, &multiprocessors), kSuccess);
  EXPECT_EQ(multiprocessors, 0);
  EXPECT_EQ(cublasSetSmCountTarget(handle_, 12), kSuccess);
  EXPECT_EQ(cublasGetSmCountTarget(handle_, &multiprocessors), kSuccess);
  EXPECT_EQ(multiprocessors, 12);
  EXPECT_EQ(cublasSetSmCountTarget(handle_, -1), kInvalidValue);
  EXPECT_EQ(cublasSetSmCountTarget(nullptr, 1), kNotInitialized);
  EXPECT_EQ(cublasGetSmCountTarget(handle_, nullptr), kInvalidValue);
}

TEST_F(CublasTest, VersionIsTheSameInEachFormAndNeedsNoHandle) {
  int version = 0;
  ASSERT_EQ(cublasGetVersion_v2(nullptr, &version), kSuccess);
  std::array<int, 3> parts{};
  for (int i = 0; i < 3; ++i) ASSERT_EQ(cublasGetProperty(i, &parts.at(i)), kSuccess);
  EXPECT_EQ(version, 10000 * parts[0] + 100 * parts[1] + parts[2]);
  EXPECT_EQ(parts[0], 13);
  EXPECT_EQ(cublasGetProperty(3, parts.data()), kInvalidValue);
}

TEST_F(CublasTest, StatusCodesHaveNames) {
  EXPECT_STREQ(cublasGetStatusName(kSuccess), "CUBLAS_STATUS_SUCCESS");
  EXPECT_STREQ(cublasGetStatusName(kNotSupported), "CUBLAS_STATUS_NOT_SUPPORTED");
  EXPECT_STREQ(cublasGetStatusName(99), "CUBLAS_STATUS_UNKNOWN");
  EXPECT_STRNE(cublasGetStatusString(kInvalidValue), cublasGetStatusString(kNotSupported));
}

/// A product of cublasLt, described.
class CublasLtTest : public CublasTest {
 protected:
  void SetUp() override {
    CublasTest::SetUp();
    ASSERT_EQ(cublasLtMatmulDescCreate(&product_, 68, 0), kSuccess);
    ASSERT_EQ(cublasLtMatrixLayoutCreate(&layout_, 0, kSize, kSize, kSize), kSuccess);
    ASSERT_EQ(cublasLtMatmulPreferenceCreate(&preference_), kSuccess);
  }
  void TearDown() override {
    EXPECT_EQ(cublasLtMatmulDescDestroy(product_), kSuccess);
    EXPECT_EQ(cublasLtMatrixLayoutDestroy(layout_), kSuccess);
    EXPECT_EQ(cublasLtMatmulPreferenceDestroy(preference_), kSuccess);
    CublasTest::TearDown();
  }
  template <typename Value>
  void set(int attribute, const Value& value) {
    ASSERT_EQ(cublasLtMatmulDescSetAttribute(product_, attribute, &value, sizeof(value)), kSuccess);
  }
  int heuristic(int* returned) {
    std::array<uint64_t, 12> result{};
    return cublasLtMatmulAlgoGetHeuristic(handle_, product_, layout_, layout_, layout_, layout_,
                                          preference_, 1, result.data(), returned);
  }
  int matmul() {
    return cublasLtMatmul(handle_, product_, &kOne, a(), layout_, b(), layout_, &kZero, c(),
                          layout_, c(), layout_, nullptr, nullptr, 0, nullptr);
  }

  static constexpr int kEpilogue = 7;
  static constexpr int kBiasPointer = 8;
  void* product_ = nullptr;
  void* layout_ = nullptr;
  void* preference_ = nullptr;
};

TEST_F(CublasLtTest, ProductReadsItsBias) {
  set(kEpilogue, uint32_t{4});
  set(kBiasPointer, static_cast<const void*>(bias()));
  int returned = 0;
  EXPECT_EQ(heuristic(&returned), kSuccess);
  EXPECT_EQ(returned, 1);
  EXPECT_EQ(matmul(), kSuccess);
  const Matrix first = read(c());
  EXPECT_NE(first, Matrix(kSize * kSize, 0));
  EXPECT_EQ(read(bias()), Matrix(kSize * kSize, 3));
  reset();
  write(bias(), 9);
  EXPECT_EQ(matmul(), kSuccess);
  EXPECT_NE(read(c()), first);
}

TEST_F(CublasLtTest, ProductReadsItsResultOnlyWhereItAddsToIt) {
  const auto multiply = [&](const float* beta, float value) {
    reset();
    write(c(), value);
    EXPECT_EQ(cublasLtMatmul(handle_, product_, &kOne, a(), layout_, b(), layout_, beta, c(),
                             layout_, c(), layout_, nullptr, nullptr, 0, nullptr),
              kSuccess);
    return read(c()).front();
  };
  EXPECT_EQ(multiply(&kZero, 5), multiply(&kZero, 6));
  EXPECT_NE(multiply(&kOne, 5), multiply(&kOne, 6));
}

/// The extents of a layout, or of a matrix, in an arena.
struct Layout {
  explicit Layout(int type, uint64_t rows, uint64_t columns, int64_t leading) {
    EXPECT_EQ(cublasLtMatrixLayoutCreate(&layout, type, rows, columns, leading), kSuccess);
  }
  ~Layout() { EXPECT_EQ(cublasLtMatrixLayoutDestroy(layout), kSuccess); }
  Layout(const Layout&) = delete;
  Layout& operator=(const Layout&) = delete;
  template <typename Value>
  void set(int attribute, const Value& value) const {
    EXPECT_EQ(cublasLtMatrixLayoutSetAttribute(layout, attribute, &value, sizeof(value)), kSuccess);
  }
  void* layout = nullptr;
};

TEST_F(CublasLtTest, ProductStaysWithinItsMatrices) {
  constexpr int kBfloat = 14;
  constexpr int kOrder = 1;
  constexpr int kBatches = 5;
  constexpr int kStride = 6;
  const Arena arena;
  const Layout a_layout(kBfloat, 40, 30, 40);
  const Layout b_layout(kBfloat, 30, 50, 64);  // by rows
  b_layout.set(kOrder, int32_t{1});
  const Layout d_layout(kBfloat, 40, 50, 48);
  for (const Layout* const layout : {&a_layout, &b_layout, &d_layout}) {
    layout->set(kBatches, int32_t{3});
    layout->set(kStride, int64_t{5000});
  }
  set(kEpilogue, uint32_t{4});
  constexpr size_t kBias = 256;
  constexpr size_t kA = 65536;
  constexpr size_t kB = 2 * 65536;
  constexpr size_t kD = 4 * 65536;
  set(kBiasPointer, static_cast<const void*>(arena.at(kBias)));
  const auto multiply = [&] {
    return cublasLtMatmul(handle_, product_, &kOne, arena.at(kA), a_layout.layout, arena.at(kB),
                          b_layout.layout, &kZero, arena.at(kD), d_layout.layout, arena.at(kD),
                          d_layout.layout, nullptr, nullptr, 0, nullptr);
  };
  EXPECT_EQ(written_by(arena, multiply), std::pair(kD, kD + (2 * 5000 + 49 * 48 + 40) * 2));
  for (const size_t end :
       {kBias + 40 * 2, kA + (2 * 5000 + 29 * 40 + 40) * 2, kB + (2 * 5000 + 29 * 64 + 50) * 2}) {
    EXPECT_TRUE(depends_on(arena, end - 1, arena.at(kD), multiply)) << end;
    EXPECT_FALSE(depends_on(arena, end, arena.at(kD), multiply)) << end;
  }
}

TEST_F(CublasLtTest, ProductWithASecondOutputIsRefused) {
  set(kEpilogue, uint32_t{2 | 128});  // RELU_AUX
  int returned = 5;
  EXPECT_EQ(heuristic(&returned), kNotSupported);
  EXPECT_EQ(returned, 0);
  EXPECT_EQ(matmul(), kNotSupported);
  EXPECT_EQ(read(c()), Matrix(kSize * kSize, 0));
}

TEST_F(CublasLtTest, DescriptionsTellWhatIsSet) {
  int type = 0;
  size_t written = 0;
  EXPECT_EQ(cublasLtMatmulDescGetAttribute(product_, 0, &type, sizeof(type), &written), kSuccess);
  EXPECT_EQ(type, 68);
  EXPECT_EQ(written, sizeof(type));
  int64_t leading = 0;
  EXPECT_EQ(cublasLtMatrixLayoutGetAttribute(layout_, 4, &leading, sizeof(leading), nullptr),
            kSuccess);
  EXPECT_EQ(leading, kSize);
  // The size alone, and a place that is too small.
  EXPECT_EQ(cublasLtMatrixLayoutGetAttribute(layout_, 4, nullptr, 0, &written), kSuccess);
  EXPECT_EQ(written, sizeof(leading));
  EXPECT_EQ(cublasLtMatrixLayoutGetAttribute(layout_, 4, &leading, 4, nullptr), kInvalidValue);
  EXPECT_EQ(cublasLtMatrixLayoutGetAttribute(layout_, 4, nullptr, 0, nullptr), kInvalidValue);
  EXPECT_EQ(cublasLtMatrixLayoutGetAttribute(nullptr, 4, &leading, 8, nullptr), kInvalidValue);
  // What is not set is zero.
  int32_t transposed = 7;
  EXPECT_EQ(cublasLtMatmulDescGetAttribute(product_, 3, &transposed, 4, nullptr), kSuccess);
  EXPECT_EQ(transposed, 0);
}

TEST_F(CublasLtTest, AnAlgorithmIsMadeByItsNumberAndChecked) {
  std::array<uint64_t, 8> algorithm{};
  ASSERT_EQ(cublasLtMatmulAlgoInit(handle_, 68, 0, 0, 0, 0, 0, 21, algorithm.data()), kSuccess);
  uint32_t number = 0;
  size_t written = 0;
  EXPECT_EQ(cublasLtMatmulAlgoConfigGetAttribute(algorithm.data(), 0, &number, 4, &written),
            kSuccess);
  EXPECT_EQ(number, 21U);
  EXPECT_EQ(written, 4U);
  const uint16_t shape = 5;
  EXPECT_EQ(cublasLtMatmulAlgoConfigSetAttribute(algorithm.data(), 8, &shape, 2), kSuccess);
  uint16_t kept = 0;
  EXPECT_EQ(cublasLtMatmulAlgoConfigGetAttribute(algorithm.data(), 8, &kept, 2, nullptr), kSuccess);
  EXPECT_EQ(kept, shape);
  EXPECT_EQ(cublasLtMatmulAlgoConfigSetAttribute(algorithm.data(), 16, &shape, 2), kInvalidValue);
  EXPECT_EQ(cublasLtMatmulAlgoConfigSetAttribute(algorithm.data(), 8, &shape, 8), kInvalidValue);

  std::array<uint64_t, 12> result{};
  EXPECT_EQ(cublasLtMatmulAlgoCheck(handle_, product_, layout_, layout_, layout_, layout_,
                                    algorithm.data(), result.data()),
            kSuccess);
  EXPECT_TRUE(std::equal(algorithm.begin(), algorithm.end(), result.begin()));
  set(kEpilogue, uint32_t{2 | 128});  // RELU_AUX
  EXPECT_EQ(cublasLtMatmulAlgoCheck(handle_, product_, layout_, layout_, layout_, layout_,
                                    algorithm.data(), result.data()),
            kNotSupported);
}

}  // namespace
}  // namespace cublas_test
