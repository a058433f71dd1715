// simgpu's libcusolver.so: orthogonal factors, and products with them.
#include <algorithm>
#include <cstdint>

#include "tools/simgpu/cusolver/routines.h"
#include "tools/simgpu/export.h"

namespace simgpu::cusolver {

Status factor_qr(const Handle* handle, std::int64_t m, std::int64_t n, const Matrix& a,
                 const void* tau, Number number, void* info) {
  const ProductOperand overwritten = matrix(a.address, m, n, a.leading, number);
  return execute(handle, {.reads = {overwritten},
                          .writes = {vector(tau, std::min(m, n), number), overwritten},
                          .work = cubic(m, n, std::min(m, n), number),
                          .info = info,
                          .matrices = 1,
                          .pivots = {}});
}

namespace {

constexpr int kLeft = 0;  ///< cublasSideMode_t: the orthogonal matrix is the left factor

/// The first n columns of the matrix that `k` reflectors make, in the place of `a`.
Status form_q(const Handle* handle, int m, int n, int k, const Matrix& a, const void* tau,
              Number number, void* info) {
  const ProductOperand overwritten = matrix(a.address, m, n, a.leading, number);
  return execute(handle, {.reads = {vector(tau, k, number), overwritten},
                          .writes = {overwritten},
                          .work = cubic(m, n, k, number),
                          .info = info,
                          .matrices = 1,
                          .pivots = {}});
}

/// The product of that matrix and `c`, m x n, in the place of `c`.
Status multiply_q(const Handle* handle, int side, int m, int n, int k, const Matrix& a,
                  const void* tau, const Matrix& c, Number number, void* info) {
  const ProductOperand overwritten = matrix(c.address, m, n, c.leading, number);
  return execute(handle, {.reads = {matrix(a.address, side == kLeft ? m : n, k, a.leading, number),
                                    vector(tau, k, number), overwritten},
                          .writes = {overwritten},
                          .work = cubic(m, n, k, number),
                          .info = info,
                          .matrices = 1,
                          .pivots = {}});
}

/// The tridiagonal form of `a`, n x n: its diagonals, and reflectors in its place.
Status reduce(const Handle* handle, int n, const Matrix& a, const void* diagonal,
              const void* beside, const void* tau, Number number, void* info) {
  const ProductOperand overwritten = matrix(a.address, n, n, a.leading, number);
  return execute(handle, {.reads = {overwritten},
                          .writes = {vector(diagonal, n, real_of(number)),
                                     vector(beside, n - 1, real_of(number)),
                                     vector(tau, n - 1, number), overwritten},
                          .work = cubic(n, n, 2 * std::int64_t{n} / 3, number),
                          .info = info,
                          .matrices = 1,
                          .pivots = {}});
}

}  // namespace

// NOLINTBEGIN(bugprone-macro-parentheses): macro arguments are names of functions.
#define SIMGPU_CUSOLVER_ORTHOGONAL(T, form, multiply, reduced, number)                             \
  SIMGPU_EXPORT int cusolverDn##T##geqrf_bufferSize(Handle* handle, int m, int n, void* /*a*/,     \
                                                    int /*lda*/, int* size) {                      \
    return answer(handle, size, m, n);                                                             \
  }                                                                                                \
  SIMGPU_EXPORT int cusolverDn##T##geqrf(Handle* handle, int m, int n, void* a, int lda,           \
                                         void* tau, void* /*work*/, int /*size*/, void* info) {    \
    return factor_qr(handle, m, n, {a, lda}, tau, number, info);                                   \
  }                                                                                                \
  SIMGPU_EXPORT int cusolverDn##form##_bufferSize(Handle* handle, int m, int n, int /*k*/,         \
                                                  const void* /*a*/, int /*lda*/,                  \
                                                  const void* /*tau*/, int* size) {                \
    return answer(handle, size, m, n);                                                             \
  }                                                                                                \
  SIMGPU_EXPORT int cusolverDn##form(Handle* handle, int m, int n, int k, void* a, int lda,        \
                                     const void* tau, void* /*work*/, int /*size*/, void* info) {  \
    return form_q(handle, m, n, k, {a, lda}, tau, number, info);                                   \
  }                                                                                                \
  SIMGPU_EXPORT int cusolverDn##multiply##_bufferSize(                                             \
      Handle* handle, int /*side*/, int /*transpose*/, int m, int n, int /*k*/, const void* /*a*/, \
      int /*lda*/, const void* /*tau*/, const void* /*c*/, int /*ldc*/, int* size) {               \
    return answer(handle, size, m, n);                                                             \
  }                                                                                                \
  SIMGPU_EXPORT int cusolverDn##multiply(                                                          \
      Handle* handle, int side, int /*transpose*/, int m, int n, int k, const void* a, int lda,    \
      const void* tau, void* c, int ldc, void* /*work*/, int /*size*/, void* info) {               \
    return multiply_q(handle, side, m, n, k, {a, lda}, tau, {c, ldc}, number, info);               \
  }                                                                                                \
  SIMGPU_EXPORT int cusolverDn##reduced##_bufferSize(                                              \
      Handle* handle, int /*uplo*/, int n, const void* /*a*/, int /*lda*/, const void* /*d*/,      \
      const void* /*e*/, const void* /*tau*/, int* size) {                                         \
    return answer(handle, size, n, n);                                                             \
  }                                                                                                \
  SIMGPU_EXPORT int cusolverDn##reduced(Handle* handle, int /*uplo*/, int n, void* a, int lda,     \
                                        void* d, void* e, void* tau, void* /*work*/, int /*size*/, \
                                        void* info) {                                              \
    return reduce(handle, n, {a, lda}, d, e, tau, number, info);                                   \
  }
SIMGPU_CUSOLVER_ORTHOGONAL(S, Sorgqr, Sormqr, Ssytrd, kSingle)
SIMGPU_CUSOLVER_ORTHOGONAL(D, Dorgqr, Dormqr, Dsytrd, kDouble)
SIMGPU_CUSOLVER_ORTHOGONAL(C, Cungqr, Cunmqr, Chetrd, kComplex)
SIMGPU_CUSOLVER_ORTHOGONAL(Z, Zungqr, Zunmqr, Zhetrd, kDoubleComplex)
#undef SIMGPU_CUSOLVER_ORTHOGONAL
// NOLINTEND(bugprone-macro-parentheses)

}  // namespace simgpu::cusolver
