// simgpu's libcusolver.so: the routines with sizes of 64 bits, whose numbers are of the types that
// a program names. Types are cudaDataType_t; work areas are never used.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "tools/simgpu/cusolver/routines.h"
#include "tools/simgpu/export.h"

namespace simgpu::cusolver {
namespace {

using cublas::number_of;

constexpr std::uint64_t kPivotBytes = 8;

/// The eigenvalues `w` of any square matrix, and its eigenvectors of the left and the right.
Status any_eigenvalues(const Handle* handle, std::int64_t n, const Matrix& a, ProductOperand w,
                       ProductOperand left, ProductOperand right, Number number, void* info) {
  const ProductOperand overwritten = matrix(a.address, n, n, a.leading, number);
  constexpr std::int64_t kOperations = 10;
  return execute(handle, {.reads = {overwritten},
                          .writes = {w, left, right, overwritten},
                          .work = cubic(n, n, kOperations * n, number),
                          .info = info,
                          .matrices = 1,
                          .pivots = {}});
}

}  // namespace

SIMGPU_EXPORT int cusolverDnXpotrf_bufferSize(Handle* handle, const void* /*parameters*/,
                                              int /*uplo*/, std::int64_t n, int type,
                                              const void* /*a*/, std::int64_t /*lda*/,
                                              int /*computes*/, std::size_t* device_bytes,
                                              std::size_t* host_bytes) {
  return answer(handle, device_bytes, host_bytes, n, n, number_of(type));
}
SIMGPU_EXPORT int cusolverDnXpotrf(Handle* handle, const void* /*parameters*/, int /*uplo*/,
                                   std::int64_t n, int type, void* a, std::int64_t lda,
                                   int /*computes*/, void* /*device_area*/,
                                   std::size_t /*device_bytes*/, void* /*host_area*/,
                                   std::size_t /*host_bytes*/, void* info) {
  return factor_triangle(handle, n, {a, lda}, number_of(type), info);
}
SIMGPU_EXPORT int cusolverDnXpotrs(Handle* handle, const void* /*parameters*/, int /*uplo*/,
                                   std::int64_t n, std::int64_t sides, int a_type, const void* a,
                                   std::int64_t lda, int /*b_type*/, void* b, std::int64_t ldb,
                                   void* info) {
  return solve(handle, n, sides, {a, lda}, {}, {b, ldb}, number_of(a_type), info);
}

SIMGPU_EXPORT int cusolverDnXgetrf_bufferSize(Handle* handle, const void* /*parameters*/,
                                              std::int64_t m, std::int64_t n, int type,
                                              const void* /*a*/, std::int64_t /*lda*/,
                                              int /*computes*/, std::size_t* device_bytes,
                                              std::size_t* host_bytes) {
  return answer(handle, device_bytes, host_bytes, m, n, number_of(type));
}
SIMGPU_EXPORT int cusolverDnXgetrf(Handle* handle, const void* /*parameters*/, std::int64_t m,
                                   std::int64_t n, int type, void* a, std::int64_t lda,
                                   void* pivots, int /*computes*/, void* /*device_area*/,
                                   std::size_t /*device_bytes*/, void* /*host_area*/,
                                   std::size_t /*host_bytes*/, void* info) {
  return factor_lu(handle, m, n, {a, lda}, pivots, kPivotBytes, number_of(type), info);
}
SIMGPU_EXPORT int cusolverDnXgetrs(Handle* handle, const void* /*parameters*/, int /*transpose*/,
                                   std::int64_t n, std::int64_t sides, int a_type, const void* a,
                                   std::int64_t lda, void* pivots, int /*b_type*/, void* b,
                                   std::int64_t ldb, void* info) {
  return solve(handle, n, sides, {a, lda}, {pivots, n, kPivotBytes}, {b, ldb}, number_of(a_type),
               info);
}

SIMGPU_EXPORT int cusolverDnXsytrs_bufferSize(Handle* handle, int /*uplo*/, std::int64_t n,
                                              std::int64_t sides, int a_type, const void* /*a*/,
                                              std::int64_t /*lda*/, const void* /*pivots*/,
                                              int /*b_type*/, void* /*b*/, std::int64_t /*ldb*/,
                                              std::size_t* device_bytes, std::size_t* host_bytes) {
  return answer(handle, device_bytes, host_bytes, n, sides, number_of(a_type));
}
SIMGPU_EXPORT int cusolverDnXsytrs(Handle* handle, int /*uplo*/, std::int64_t n, std::int64_t sides,
                                   int a_type, const void* a, std::int64_t lda, void* pivots,
                                   int /*b_type*/, void* b, std::int64_t ldb, void* /*device_area*/,
                                   std::size_t /*device_bytes*/, void* /*host_area*/,
                                   std::size_t /*host_bytes*/, void* info) {
  return solve(handle, n, sides, {a, lda}, {pivots, n, kPivotBytes}, {b, ldb}, number_of(a_type),
               info);
}

SIMGPU_EXPORT int cusolverDnXgeqrf_bufferSize(Handle* handle, const void* /*parameters*/,
                                              std::int64_t m, std::int64_t n, int type,
                                              const void* /*a*/, std::int64_t /*lda*/,
                                              int /*tau_type*/, const void* /*tau*/,
                                              int /*computes*/, std::size_t* device_bytes,
                                              std::size_t* host_bytes) {
  return answer(handle, device_bytes, host_bytes, m, n, number_of(type));
}
SIMGPU_EXPORT int cusolverDnXgeqrf(Handle* handle, const void* /*parameters*/, std::int64_t m,
                                   std::int64_t n, int type, void* a, std::int64_t lda,
                                   int /*tau_type*/, void* tau, int /*computes*/,
                                   void* /*device_area*/, std::size_t /*device_bytes*/,
                                   void* /*host_area*/, std::size_t /*host_bytes*/, void* info) {
  return factor_qr(handle, m, n, {a, lda}, tau, number_of(type), info);
}

SIMGPU_EXPORT int cusolverDnXsyevd_bufferSize(Handle* handle, const void* /*parameters*/,
                                              int /*vectors*/, int /*uplo*/, std::int64_t n,
                                              int type, const void* /*a*/, std::int64_t /*lda*/,
                                              int /*w_type*/, const void* /*w*/, int /*computes*/,
                                              std::size_t* device_bytes, std::size_t* host_bytes) {
  return answer(handle, device_bytes, host_bytes, n, n, number_of(type));
}
SIMGPU_EXPORT int cusolverDnXsyevd(Handle* handle, const void* /*parameters*/, int /*vectors*/,
                                   int /*uplo*/, std::int64_t n, int type, void* a,
                                   std::int64_t lda, int /*w_type*/, void* w, int /*computes*/,
                                   void* /*device_area*/, std::size_t /*device_bytes*/,
                                   void* /*host_area*/, std::size_t /*host_bytes*/, void* info) {
  return eigenvalues(handle, n, {a, lda}, w, number_of(type), info);
}
SIMGPU_EXPORT int cusolverDnXsyevBatched_bufferSize(
    Handle* handle, const void* /*parameters*/, int /*vectors*/, int /*uplo*/, std::int64_t n,
    int type, const void* /*a*/, std::int64_t /*lda*/, int /*w_type*/, const void* /*w*/,
    int /*computes*/, std::size_t* device_bytes, std::size_t* host_bytes,
    std::int64_t /*matrices*/) {
  return answer(handle, device_bytes, host_bytes, n, n, number_of(type));
}
SIMGPU_EXPORT int cusolverDnXsyevBatched(Handle* handle, const void* /*parameters*/,
                                         int /*vectors*/, int /*uplo*/, std::int64_t n, int type,
                                         void* a, std::int64_t lda, int /*w_type*/, void* w,
                                         int /*computes*/, void* /*device_area*/,
                                         std::size_t /*device_bytes*/, void* /*host_area*/,
                                         std::size_t /*host_bytes*/, void* info,
                                         std::int64_t matrices) {
  return eigenvalues(handle, n, {a, lda}, w, number_of(type), info, matrices);
}

SIMGPU_EXPORT int cusolverDnXgeev_bufferSize(Handle* handle, const void* /*parameters*/,
                                             int /*left*/, int /*right*/, std::int64_t n, int type,
                                             const void* /*a*/, std::int64_t /*lda*/,
                                             int /*w_type*/, const void* /*w*/, int /*left_type*/,
                                             const void* /*vl*/, std::int64_t /*ldvl*/,
                                             int /*right_type*/, const void* /*vr*/,
                                             std::int64_t /*ldvr*/, int /*computes*/,
                                             std::size_t* device_bytes, std::size_t* host_bytes) {
  return answer(handle, device_bytes, host_bytes, n, n, number_of(type));
}
SIMGPU_EXPORT int cusolverDnXgeev(Handle* handle, const void* /*parameters*/, int left, int right,
                                  std::int64_t n, int type, void* a, std::int64_t lda, int w_type,
                                  void* w, int left_type, void* vl, std::int64_t ldvl,
                                  int right_type, void* vr, std::int64_t ldvr, int /*computes*/,
                                  void* /*device_area*/, std::size_t /*device_bytes*/,
                                  void* /*host_area*/, std::size_t /*host_bytes*/, void* info) {
  // Real eigenvalues come as two vectors, of real and of imaginary parts.
  const Number of_values = number_of(w_type);
  const std::int64_t values = of_values.is_complex ? n : 2 * n;
  return any_eigenvalues(
      handle, n, {a, lda}, vector(w, values, of_values),
      matrix(left == kVectors ? vl : nullptr, n, n, ldvl, number_of(left_type)),
      matrix(right == kVectors ? vr : nullptr, n, n, ldvr, number_of(right_type)), number_of(type),
      info);
}

SIMGPU_EXPORT int cusolverDnXgesvd_bufferSize(
    Handle* handle, const void* /*parameters*/, signed char /*job_u*/, signed char /*job_v*/,
    std::int64_t m, std::int64_t n, int type, const void* /*a*/, std::int64_t /*lda*/,
    int /*s_type*/, const void* /*s*/, int /*u_type*/, const void* /*u*/, std::int64_t /*ldu*/,
    int /*v_type*/, const void* /*v*/, std::int64_t /*ldv*/, int /*computes*/,
    std::size_t* device_bytes, std::size_t* host_bytes) {
  return answer(handle, device_bytes, host_bytes, m, n, number_of(type));
}
SIMGPU_EXPORT int cusolverDnXgesvd(Handle* handle, const void* /*parameters*/, signed char job_u,
                                   signed char job_v, std::int64_t m, std::int64_t n, int type,
                                   void* a, std::int64_t lda, int /*s_type*/, void* s,
                                   int /*u_type*/, void* u, std::int64_t ldu, int /*v_type*/,
                                   void* v, std::int64_t ldv, int /*computes*/,
                                   void* /*device_area*/, std::size_t /*device_bytes*/,
                                   void* /*host_area*/, std::size_t /*host_bytes*/, void* info) {
  const std::int64_t least = std::min(m, n);
  return singular_values(handle,
                         {m,
                          n,
                          {a, lda},
                          s,
                          {u, ldu},
                          vectors_of(job_u, m, least),
                          {v, ldv},
                          vectors_of(job_v, n, least),
                          n},
                         number_of(type), info);
}

SIMGPU_EXPORT int cusolverDnXgesvdp_bufferSize(
    Handle* handle, const void* /*parameters*/, int /*vectors*/, int /*economical*/, std::int64_t m,
    std::int64_t n, int type, const void* /*a*/, std::int64_t /*lda*/, int /*s_type*/,
    const void* /*s*/, int /*u_type*/, const void* /*u*/, std::int64_t /*ldu*/, int /*v_type*/,
    const void* /*v*/, std::int64_t /*ldv*/, int /*computes*/, std::size_t* device_bytes,
    std::size_t* host_bytes) {
  return answer(handle, device_bytes, host_bytes, m, n, number_of(type));
}
SIMGPU_EXPORT int cusolverDnXgesvdp(Handle* handle, const void* /*parameters*/, int vectors,
                                    int economical, std::int64_t m, std::int64_t n, int type,
                                    void* a, std::int64_t lda, int /*s_type*/, void* s,
                                    int /*u_type*/, void* u, std::int64_t ldu, int /*v_type*/,
                                    void* v, std::int64_t ldv, int /*computes*/,
                                    void* /*device_area*/, std::size_t /*device_bytes*/,
                                    void* /*host_area*/, std::size_t /*host_bytes*/, void* info,
                                    double* error) {
  if (error != nullptr) *error = 0;
  const std::int64_t least = std::min(m, n);
  const bool has_vectors = vectors == kVectors;
  return singular_values(handle,
                         {m,
                          n,
                          {a, lda},
                          s,
                          {u, ldu},
                          !has_vectors      ? 0
                          : economical != 0 ? least
                                            : m,
                          {v, ldv},
                          n,
                          !has_vectors      ? 0
                          : economical != 0 ? least
                                            : n},
                         number_of(type), info);
}

}  // namespace simgpu::cusolver
