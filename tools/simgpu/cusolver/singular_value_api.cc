// simgpu's libcusolver.so: singular values and vectors.
#include <algorithm>
#include <cstdint>

#include "tools/simgpu/cusolver/routines.h"
#include "tools/simgpu/export.h"

namespace simgpu::cusolver {
namespace {

/// One side's vectors, or an operand without an address where none are wanted.
ProductOperand side(const Matrix& vectors, std::int64_t rows, std::int64_t columns, Number number,
                    std::int64_t matrices) {
  return matrix(vectors.address, rows, columns, vectors.leading, number, matrices, vectors.stride);
}

}  // namespace

Status singular_values(const Handle* handle, const SingularValues& wanted, Number number,
                       void* info, std::int64_t matrices) {
  const std::int64_t m = wanted.m;
  const std::int64_t n = wanted.n;
  const std::int64_t least = std::min(m, n);
  const ProductOperand overwritten = side(wanted.a, m, n, number, matrices);
  constexpr std::int64_t kOperations = 6;  // bidiagonal form, vectors of both sides, and back
  return execute(
      handle,
      {.reads = {overwritten},
       .writes = {vector(wanted.s, least * matrices, real_of(number)),
                  side(wanted.u, m, wanted.u_columns, number, matrices),
                  side(wanted.v, wanted.v_rows, wanted.v_columns, number, matrices), overwritten},
       .work = cubic(m, n, kOperations * least, number, matrices),
       .info = info,
       .matrices = matrices,
       .pivots = {}});
}

namespace {

/// By the algorithm of Jacobi: with vectors, U is m x least or m x m, and V, not transposed, n x
/// least or n x n.
Status by_jacobi(const Handle* handle, int vectors, int economical, const SingularValues& shape,
                 Number number, void* info, std::int64_t matrices) {
  SingularValues wanted = shape;
  const std::int64_t least = std::min(wanted.m, wanted.n);
  const bool has_vectors = vectors == kVectors;
  wanted.u_columns = !has_vectors ? 0 : economical != 0 ? least : wanted.m;
  wanted.v_rows = wanted.n;
  wanted.v_columns = !has_vectors ? 0 : economical != 0 ? least : wanted.n;
  return singular_values(handle, wanted, number, info, matrices);
}

/// Of tall matrices, which are not overwritten, in batches with strides.
struct Strided {
  int vectors;
  int rank;
  int m;
  int n;
  Matrix a;
  Matrix s;  ///< whose stride is that of the vectors of singular values
  Matrix u;
  Matrix v;
  int matrices;
};

Status of_tall(const Handle* handle, const Strided& wanted, Number number, void* info,
               double* residuals) {
  const std::int64_t matrices = wanted.matrices;
  const std::int64_t columns = wanted.vectors == kVectors ? wanted.rank : 0;
  for (std::int64_t i = 0; residuals != nullptr && i < matrices; ++i) residuals[i] = 0;
  return execute(handle, {.reads = {side(wanted.a, wanted.m, wanted.n, number, matrices)},
                          .writes = {side(wanted.s, wanted.rank, 1, real_of(number), matrices),
                                     side(wanted.u, wanted.m, columns, number, matrices),
                                     side(wanted.v, wanted.n, columns, number, matrices)},
                          .work = cubic(wanted.m, wanted.n, wanted.rank, number, matrices),
                          .info = info,
                          .matrices = matrices,
                          .pivots = {}});
}

}  // namespace

// NOLINTBEGIN(bugprone-macro-parentheses): macro arguments are names of functions.
#define SIMGPU_CUSOLVER_SINGULAR_VALUES(T, number)                                                 \
  SIMGPU_EXPORT int cusolverDn##T##gesvd_bufferSize(Handle* handle, int m, int n, int* size) {     \
    return answer(handle, size, m, n);                                                             \
  }                                                                                                \
  SIMGPU_EXPORT int cusolverDn##T##gesvd(Handle* handle, signed char job_u, signed char job_v,     \
                                         int m, int n, void* a, int lda, void* s, void* u,         \
                                         int ldu, void* v, int ldv, void* /*work*/, int /*size*/,  \
                                         void* /*real_work*/, void* info) {                        \
    const int least = std::min(m, n);                                                              \
    return singular_values(handle,                                                                 \
                           {m,                                                                     \
                            n,                                                                     \
                            {a, lda},                                                              \
                            s,                                                                     \
                            {u, ldu},                                                              \
                            vectors_of(job_u, m, least),                                           \
                            {v, ldv},                                                              \
                            vectors_of(job_v, n, least),                                           \
                            n},                                                                    \
                           number, info);                                                          \
  }                                                                                                \
  SIMGPU_EXPORT int cusolverDn##T##gesvdj_bufferSize(                                              \
      Handle* handle, int /*vectors*/, int /*economical*/, int m, int n, const void* /*a*/,        \
      int /*lda*/, const void* /*s*/, const void* /*u*/, int /*ldu*/, const void* /*v*/,           \
      int /*ldv*/, int* size, const void* /*parameters*/) {                                        \
    return answer(handle, size, m, n);                                                             \
  }                                                                                                \
  SIMGPU_EXPORT int cusolverDn##T##gesvdj(Handle* handle, int vectors, int economical, int m,      \
                                          int n, void* a, int lda, void* s, void* u, int ldu,      \
                                          void* v, int ldv, void* /*work*/, int /*size*/,          \
                                          void* info, const void* /*parameters*/) {                \
    return by_jacobi(handle, vectors, economical,                                                  \
                     {m, n, {a, lda}, s, {u, ldu}, 0, {v, ldv}, 0, 0}, number, info, 1);           \
  }                                                                                                \
  SIMGPU_EXPORT int cusolverDn##T##gesvdjBatched_bufferSize(                                       \
      Handle* handle, int /*vectors*/, int m, int n, const void* /*a*/, int /*lda*/,               \
      const void* /*s*/, const void* /*u*/, int /*ldu*/, const void* /*v*/, int /*ldv*/,           \
      int* size, const void* /*parameters*/, int /*matrices*/) {                                   \
    return answer(handle, size, m, n);                                                             \
  }                                                                                                \
  SIMGPU_EXPORT int cusolverDn##T##gesvdjBatched(                                                  \
      Handle* handle, int vectors, int m, int n, void* a, int lda, void* s, void* u, int ldu,      \
      void* v, int ldv, void* /*work*/, int /*size*/, void* info, const void* /*parameters*/,      \
      int matrices) {                                                                              \
    return by_jacobi(handle, vectors, 0, {m, n, {a, lda}, s, {u, ldu}, 0, {v, ldv}, 0, 0}, number, \
                     info, matrices);                                                              \
  }                                                                                                \
  SIMGPU_EXPORT int cusolverDn##T##gesvdaStridedBatched_bufferSize(                                \
      Handle* handle, int /*vectors*/, int /*rank*/, int m, int n, const void* /*a*/, int /*lda*/, \
      long long /*stride_a*/, const void* /*s*/, long long /*stride_s*/, const void* /*u*/,        \
      int /*ldu*/, long long /*stride_u*/, const void* /*v*/, int /*ldv*/, long long /*stride_v*/, \
      int* size, int /*matrices*/) {                                                               \
    return answer(handle, size, m, n);                                                             \
  }                                                                                                \
  SIMGPU_EXPORT int cusolverDn##T##gesvdaStridedBatched(                                           \
      Handle* handle, int vectors, int rank, int m, int n, const void* a, int lda,                 \
      long long stride_a, void* s, long long stride_s, void* u, int ldu, long long stride_u,       \
      void* v, int ldv, long long stride_v, void* /*work*/, int /*size*/, void* info,              \
      double* residuals, int matrices) {                                                           \
    return of_tall(handle,                                                                         \
                   {vectors,                                                                       \
                    rank,                                                                          \
                    m,                                                                             \
                    n,                                                                             \
                    {a, lda, stride_a},                                                            \
                    {s, rank, stride_s},                                                           \
                    {u, ldu, stride_u},                                                            \
                    {v, ldv, stride_v},                                                            \
                    matrices},                                                                     \
                   number, info, residuals);                                                       \
  }
SIMGPU_CUSOLVER_SINGULAR_VALUES(S, kSingle)
SIMGPU_CUSOLVER_SINGULAR_VALUES(D, kDouble)
SIMGPU_CUSOLVER_SINGULAR_VALUES(C, kComplex)
SIMGPU_CUSOLVER_SINGULAR_VALUES(Z, kDoubleComplex)
#undef SIMGPU_CUSOLVER_SINGULAR_VALUES
// NOLINTEND(bugprone-macro-parentheses)

}  // namespace simgpu::cusolver
