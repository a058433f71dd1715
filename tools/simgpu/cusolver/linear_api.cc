// simgpu's libcusolver.so: factors of systems of linear equations, and their solutions.
#include <algorithm>
#include <cstdint>

#include "tools/simgpu/cublas/launch.h"
#include "tools/simgpu/cusolver/routines.h"
#include "tools/simgpu/export.h"

namespace simgpu::cusolver {

Status factor_triangle(const Handle* handle, std::int64_t n, const Matrix& a, Number number,
                       void* info, const Pivots& pivots, std::int64_t matrices) {
  const ProductOperand overwritten = matrix(a.address, n, n, a.leading, number, matrices, a.stride);
  return execute(handle, {.reads = {overwritten},
                          .writes = {overwritten},
                          .work = cubic(n, n, n / 6, number, matrices),
                          .info = info,
                          .matrices = matrices,
                          .pivots = pivots});
}

Status factor_lu(const Handle* handle, std::int64_t m, std::int64_t n, const Matrix& a,
                 void* pivots, std::uint64_t pivot_bytes, Number number, void* info) {
  const ProductOperand overwritten = matrix(a.address, m, n, a.leading, number);
  return execute(handle, {.reads = {overwritten},
                          .writes = {overwritten},
                          .work = cubic(m, n, std::min(m, n) / 3, number),
                          .info = info,
                          .matrices = 1,
                          .pivots = {pivots, std::min(m, n), pivot_bytes}});
}

Status solve(const Handle* handle, std::int64_t n, std::int64_t sides, const Matrix& a,
             const Pivots& pivots, const Matrix& b, Number number, void* info) {
  const ProductOperand overwritten = matrix(b.address, n, sides, b.leading, number);
  return execute(handle, {.reads = {matrix(a.address, n, n, a.leading, number),
                                    vector(pivots.address, n, Number{pivots.number_bytes, false}),
                                    overwritten},
                          .writes = {overwritten},
                          .work = cubic(n, sides, n, number),
                          .info = info,
                          .matrices = 1,
                          .pivots = {}});
}

namespace {

/// Factors, or with `b` solutions, of `matrices` systems whose matrices' addresses are in tables.
int over_tables(const Handle* handle, const Batched& batched, void* info, std::int64_t reports) {
  if (handle == nullptr) return kNotInitialized;
  const bool done =
      cublas::launch_batched(handle->stream, batched) == cublas::kSuccess &&
      cublas::clear(handle->stream, info, static_cast<std::uint64_t>(reports) * sizeof(int)) ==
          cublas::kSuccess;
  return done ? kSuccess : kExecutionFailed;
}

}  // namespace

// NOLINTBEGIN(bugprone-macro-parentheses): macro arguments are names of functions.
#define SIMGPU_CUSOLVER_LINEAR(T, number)                                                          \
  SIMGPU_EXPORT int cusolverDn##T##potrf_bufferSize(Handle* handle, int /*uplo*/, int n,           \
                                                    void* /*a*/, int /*lda*/, int* size) {         \
    return answer(handle, size, n, n);                                                             \
  }                                                                                                \
  SIMGPU_EXPORT int cusolverDn##T##potrf(Handle* handle, int /*uplo*/, int n, void* a, int lda,    \
                                         void* /*work*/, int /*size*/, void* info) {               \
    return factor_triangle(handle, n, {a, lda}, number, info);                                     \
  }                                                                                                \
  SIMGPU_EXPORT int cusolverDn##T##potrs(Handle* handle, int /*uplo*/, int n, int sides,           \
                                         const void* a, int lda, void* b, int ldb, void* info) {   \
    return solve(handle, n, sides, {a, lda}, {}, {b, ldb}, number, info);                          \
  }                                                                                                \
  SIMGPU_EXPORT int cusolverDn##T##potri_bufferSize(Handle* handle, int /*uplo*/, int n,           \
                                                    void* /*a*/, int /*lda*/, int* size) {         \
    return answer(handle, size, n, n);                                                             \
  }                                                                                                \
  SIMGPU_EXPORT int cusolverDn##T##potri(Handle* handle, int /*uplo*/, int n, void* a, int lda,    \
                                         void* /*work*/, int /*size*/, void* info) {               \
    return factor_triangle(handle, n, {a, lda}, number, info);                                     \
  }                                                                                                \
  SIMGPU_EXPORT int cusolverDn##T##potrfBatched(                                                   \
      Handle* handle, int /*uplo*/, int n, const void* a, int lda, void* info, int matrices) {     \
    return over_tables(handle,                                                                     \
                       {.overwritten = a,                                                          \
                        .overwritten_bytes = matrix_bytes(n, n, lda, (number).bytes),              \
                        .count = static_cast<std::uint64_t>(std::max(matrices, 0))},               \
                       info, std::max(matrices, 0));                                               \
  }                                                                                                \
  SIMGPU_EXPORT int cusolverDn##T##potrsBatched(Handle* handle, int /*uplo*/, int n, int sides,    \
                                                const void* a, int lda, const void* b, int ldb,    \
                                                void* info, int matrices) {                        \
    return over_tables(handle,                                                                     \
                       {.first = a,                                                                \
                        .overwritten = b,                                                          \
                        .first_bytes = matrix_bytes(n, n, lda, (number).bytes),                    \
                        .overwritten_bytes = matrix_bytes(n, sides, ldb, (number).bytes),          \
                        .count = static_cast<std::uint64_t>(std::max(matrices, 0))},               \
                       info, 1);                                                                   \
  }                                                                                                \
  SIMGPU_EXPORT int cusolverDn##T##getrf_bufferSize(Handle* handle, int m, int n, void* /*a*/,     \
                                                    int /*lda*/, int* size) {                      \
    return answer(handle, size, m, n);                                                             \
  }                                                                                                \
  SIMGPU_EXPORT int cusolverDn##T##getrf(Handle* handle, int m, int n, void* a, int lda,           \
                                         void* /*work*/, void* pivots, void* info) {               \
    return factor_lu(handle, m, n, {a, lda}, pivots, sizeof(int), number, info);                   \
  }                                                                                                \
  SIMGPU_EXPORT int cusolverDn##T##getrs(Handle* handle, int /*transpose*/, int n, int sides,      \
                                         const void* a, int lda, void* pivots, void* b, int ldb,   \
                                         void* info) {                                             \
    return solve(handle, n, sides, {a, lda}, {pivots, n, sizeof(int)}, {b, ldb}, number, info);    \
  }                                                                                                \
  SIMGPU_EXPORT int cusolverDn##T##sytrf_bufferSize(Handle* handle, int n, void* /*a*/,            \
                                                    int /*lda*/, int* size) {                      \
    return answer(handle, size, n, n);                                                             \
  }                                                                                                \
  SIMGPU_EXPORT int cusolverDn##T##sytrf(Handle* handle, int /*uplo*/, int n, void* a, int lda,    \
                                         void* pivots, void* /*work*/, int /*size*/, void* info) { \
    return factor_triangle(handle, n, {a, lda}, number, info, {pivots, n, sizeof(int)});           \
  }
SIMGPU_CUSOLVER_LINEAR(S, kSingle)
SIMGPU_CUSOLVER_LINEAR(D, kDouble)
SIMGPU_CUSOLVER_LINEAR(C, kComplex)
SIMGPU_CUSOLVER_LINEAR(Z, kDoubleComplex)
#undef SIMGPU_CUSOLVER_LINEAR

/// Solves a sparse system of n equations. The routine says on the host that the matrix is not
/// singular; it does so at once, and does not wait for the solution as NVIDIA's does.
#define SIMGPU_CUSOLVER_SPARSE(T, number)                                                     \
  SIMGPU_EXPORT int cusolverSp##T##csrlsvqr(                                                  \
      Handle* handle, int n, int entries, const void* /*description*/, const void* values,    \
      const void* rows, const void* columns, const void* b, double /*tolerance*/,             \
      int /*reorders*/, void* x, int* singularity) {                                          \
    if (singularity == nullptr) return kInvalidValue;                                         \
    *singularity = -1;                                                                        \
    const Number index{sizeof(int), false};                                                   \
    return execute(handle, {.reads = {vector(values, entries, number),                        \
                                      vector(rows, std::int64_t{n} + 1, index),               \
                                      vector(columns, entries, index), vector(b, n, number)}, \
                            .writes = {vector(x, n, number)},                                 \
                            .work = cubic(n, n, 1, number),                                   \
                            .info = nullptr,                                                  \
                            .matrices = 1,                                                    \
                            .pivots = {}});                                                   \
  }
SIMGPU_CUSOLVER_SPARSE(S, kSingle)
SIMGPU_CUSOLVER_SPARSE(D, kDouble)
SIMGPU_CUSOLVER_SPARSE(C, kComplex)
SIMGPU_CUSOLVER_SPARSE(Z, kDoubleComplex)
#undef SIMGPU_CUSOLVER_SPARSE
// NOLINTEND(bugprone-macro-parentheses)

}  // namespace simgpu::cusolver
