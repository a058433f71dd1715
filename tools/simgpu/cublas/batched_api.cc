// simgpu's libcublas.so: triangular solves, and what routines do over matrices whose addresses lie
// in device memory: factors, solutions and products, each one launch.
//
// Source: cuBLAS, "BLAS-like Extension".
#include <algorithm>
#include <array>
#include <cstdint>

#include "tools/simgpu/cublas/handle.h"
#include "tools/simgpu/cublas/launch.h"
#include "tools/simgpu/cublas/number.h"
#include "tools/simgpu/export.h"

namespace simgpu::cublas {
namespace {

constexpr int kLeftSide = 0;

/// A table of matrices that have that many bytes each.
struct Table {
  const void* addresses = nullptr;
  std::uint64_t bytes = 0;
};

/// A routine over tables. `reports` and `pivots`, which it writes: device memory, or null.
struct Factors {
  Table first = {};
  Table second = {};
  Table overwritten = {};
  Table written = {};
  int count = 0;
  std::array<ProductOperand, 2> shared = {};  ///< read for every matrix
  void* reports = nullptr;
  void* pivots = nullptr;
  int rows = 0;  ///< pivots of each matrix
};

Status run_batched(const Handle* handle, const Factors& factors) {
  if (handle == nullptr) return kNotInitialized;
  if (factors.count < 0) return kInvalidValue;
  const auto count = static_cast<std::uint64_t>(factors.count);
  const Batched batched{.first = factors.first.addresses,
                        .second = factors.second.addresses,
                        .overwritten = factors.overwritten.addresses,
                        .written = factors.written.addresses,
                        .first_bytes = factors.first.bytes,
                        .second_bytes = factors.second.bytes,
                        .overwritten_bytes = factors.overwritten.bytes,
                        .written_bytes = factors.written.bytes,
                        .count = count,
                        .shared = factors.shared};
  Status status = launch_batched(handle->stream, batched);
  if (status == kSuccess) {
    status = write_pivots(handle->stream, factors.pivots, factors.rows, factors.count, sizeof(int));
  }
  return status == kSuccess ? clear(handle->stream, factors.reports, count * sizeof(int)) : status;
}

/// A routine that reports on the host that its arguments are valid.
Status run_and_report(const Handle* handle, const Factors& factors, int* report) {
  const Status status = run_batched(handle, factors);
  if (status == kSuccess && report != nullptr) *report = 0;
  return status;
}

Table table(const void* addresses, int rows, int columns, int leading, Number number) {
  return {addresses, matrix_bytes(rows, columns, leading, number.bytes)};
}

/// Solves with the triangular `a` in the place of `b`, m x n.
Status solve_triangular(const Handle* handle, int side, int m, int n, const void* alpha,
                        const void* a, int lda, void* b, int ldb, Number number) {
  if (handle == nullptr) return kNotInitialized;
  if (m < 0 || n < 0 || alpha == nullptr) return kInvalidValue;
  if (m == 0 || n == 0) return kSuccess;
  const int order = side == kLeftSide ? m : n;
  const ProductOperand overwritten{b, matrix_bytes(m, n, ldb, number.bytes)};
  const std::array inputs{ProductOperand{a, matrix_bytes(order, order, lda, number.bytes)},
                          scalar(*handle, alpha, number.bytes), overwritten};
  const std::array outputs{overwritten};
  return execute(Routine::kTriangular, handle->stream, inputs, outputs,
                 product_of(m, n, std::max(order / 2, 1), 1, number));
}

/// The pivots of `count` factorisations of `rows` rows, which a routine reads.
ProductOperand pivots_of(const void* pivots, int rows, int count) {
  return {pivots, matrix_bytes(rows, count, rows, sizeof(int))};
}

/// Solves with the triangular matrices of `a` in the place of those of `b`.
Status solve_triangular(const Handle* handle, const void* alpha, const Table& a, const Table& b,
                        int count, Number number) {
  if (handle == nullptr) return kNotInitialized;
  return run_batched(handle, {.first = a,
                              .overwritten = b,
                              .count = count,
                              .shared = {scalar(*handle, alpha, number.bytes)}});
}

/// The products of matrices of tables. `factor`: the bytes of alpha. C is not read where beta is a
/// zero on the host.
Status multiply_tables(const Handle* handle, const void* alpha, const Table& a, const Table& b,
                       const void* beta, const Table& c, int count, std::uint64_t factor) {
  if (handle == nullptr) return kNotInitialized;
  if (alpha == nullptr || beta == nullptr) return kInvalidValue;
  const bool is_added =
      added_to(handle->pointer_mode, beta, factor, {c.addresses, c.bytes}).address != nullptr;
  return run_batched(handle,
                     {.first = a,
                      .second = b,
                      .overwritten = is_added ? c : Table{},
                      .written = is_added ? Table{} : c,
                      .count = count,
                      .shared = {scalar(*handle, alpha, factor), scalar(*handle, beta, factor)}});
}

/// A table of factors of a product, which may be transposed.
Table factor(const void* addresses, int transpose, int rows, int columns, int leading,
             Number number) {
  return transpose == 0 ? table(addresses, rows, columns, leading, number)
                        : table(addresses, columns, rows, leading, number);
}

}  // namespace

// NOLINTBEGIN(bugprone-macro-parentheses): macro arguments are names of functions.
#define SIMGPU_CUBLAS_FACTORS(T, number)                                                           \
  SIMGPU_EXPORT int cublas##T##trsm_v2(Handle* handle, int side, int /*uplo*/, int /*transpose*/,  \
                                       int /*diagonal*/, int m, int n, const void* alpha,          \
                                       const void* a, int lda, void* b, int ldb) {                 \
    return solve_triangular(handle, side, m, n, alpha, a, lda, b, ldb, number);                    \
  }                                                                                                \
  SIMGPU_EXPORT int cublas##T##trsmBatched(                                                        \
      Handle* handle, int side, int /*uplo*/, int /*transpose*/, int /*diagonal*/, int m, int n,   \
      const void* alpha, const void* a, int lda, const void* b, int ldb, int count) {              \
    const int order = side == kLeftSide ? m : n;                                                   \
    return solve_triangular(handle, alpha, table(a, order, order, lda, number),                    \
                            table(b, m, n, ldb, number), count, number);                           \
  }                                                                                                \
  SIMGPU_EXPORT int cublas##T##getrfBatched(Handle* handle, int n, const void* a, int lda,         \
                                            void* pivots, void* info, int count) {                 \
    return run_batched(handle, {.overwritten = table(a, n, n, lda, number),                        \
                                .count = count,                                                    \
                                .reports = info,                                                   \
                                .pivots = pivots,                                                  \
                                .rows = n});                                                       \
  }                                                                                                \
  SIMGPU_EXPORT int cublas##T##getriBatched(Handle* handle, int n, const void* a, int lda,         \
                                            const void* pivots, const void* c, int ldc,            \
                                            void* info, int count) {                               \
    return run_batched(handle, {.first = table(a, n, n, lda, number),                              \
                                .written = table(c, n, n, ldc, number),                            \
                                .count = count,                                                    \
                                .shared = {pivots_of(pivots, n, count)},                           \
                                .reports = info});                                                 \
  }                                                                                                \
  SIMGPU_EXPORT int cublas##T##matinvBatched(Handle* handle, int n, const void* a, int lda,        \
                                             const void* c, int ldc, void* info, int count) {      \
    return run_batched(handle, {.first = table(a, n, n, lda, number),                              \
                                .written = table(c, n, n, ldc, number),                            \
                                .count = count,                                                    \
                                .reports = info});                                                 \
  }                                                                                                \
  SIMGPU_EXPORT int cublas##T##getrsBatched(Handle* handle, int /*transpose*/, int n, int sides,   \
                                            const void* a, int lda, const void* pivots,            \
                                            const void* b, int ldb, int* report, int count) {      \
    return run_and_report(handle,                                                                  \
                          {.first = table(a, n, n, lda, number),                                   \
                           .overwritten = table(b, n, sides, ldb, number),                         \
                           .count = count,                                                         \
                           .shared = {pivots_of(pivots, n, count)}},                               \
                          report);                                                                 \
  }                                                                                                \
  SIMGPU_EXPORT int cublas##T##geqrfBatched(Handle* handle, int m, int n, const void* a, int lda,  \
                                            const void* tau, int* report, int count) {             \
    return run_and_report(handle,                                                                  \
                          {.overwritten = table(a, m, n, lda, number),                             \
                           .written = table(tau, std::min(m, n), 1, 1, number),                    \
                           .count = count},                                                        \
                          report);                                                                 \
  }                                                                                                \
  SIMGPU_EXPORT int cublas##T##gelsBatched(Handle* handle, int transpose, int m, int n, int sides, \
                                           const void* a, int lda, const void* c, int ldc,         \
                                           int* report, void* info, int count) {                   \
    const int rows = transpose == 0 ? m : n;                                                       \
    return run_and_report(handle,                                                                  \
                          {.first = table(a, m, n, lda, number),                                   \
                           .overwritten = table(c, rows, sides, ldc, number),                      \
                           .count = count,                                                         \
                           .reports = info},                                                       \
                          report);                                                                 \
  }                                                                                                \
  SIMGPU_EXPORT int cublas##T##gemmBatched(Handle* handle, int transa, int transb, int m, int n,   \
                                           int k, const void* alpha, const void* a, int lda,       \
                                           const void* b, int ldb, const void* beta,               \
                                           const void* c, int ldc, int count) {                    \
    return multiply_tables(handle, alpha, factor(a, transa, m, k, lda, number),                    \
                           factor(b, transb, k, n, ldb, number), beta,                             \
                           table(c, m, n, ldc, number), count, (number).bytes);                    \
  }
SIMGPU_CUBLAS_FACTORS(S, kSingle)
SIMGPU_CUBLAS_FACTORS(D, kDouble)
SIMGPU_CUBLAS_FACTORS(C, kComplex)
SIMGPU_CUBLAS_FACTORS(Z, kDoubleComplex)
#undef SIMGPU_CUBLAS_FACTORS
// NOLINTEND(bugprone-macro-parentheses)

SIMGPU_EXPORT int cublasGemmBatchedEx(Handle* handle, int transa, int transb, int m, int n, int k,
                                      const void* alpha, const void* a, int a_type, int lda,
                                      const void* b, int b_type, int ldb, const void* beta,
                                      const void* c, int c_type, int ldc, int count,
                                      int compute_type, int /*algorithm*/) {
  return multiply_tables(handle, alpha, factor(a, transa, m, k, lda, {bytes_of(a_type), false}),
                         factor(b, transb, k, n, ldb, {bytes_of(b_type), false}), beta,
                         table(c, m, n, ldc, {bytes_of(c_type), false}), count,
                         factor_bytes(compute_type, number_of(a_type).is_complex));
}

}  // namespace simgpu::cublas
