// simgpu's libcusolver.so: eigenvalues and eigenvectors of symmetric matrices.
#include <algorithm>
#include <cstdint>

#include "tools/simgpu/cusolver/routines.h"
#include "tools/simgpu/export.h"

namespace simgpu::cusolver {

Status eigenvalues(const Handle* handle, std::int64_t n, const Matrix& a, const void* w,
                   Number number, void* info, std::int64_t matrices) {
  // Without vectors, too, what the matrix was is lost.
  const ProductOperand overwritten = matrix(a.address, n, n, a.leading, number, matrices);
  constexpr std::int64_t kOperations = 4;  // tridiagonal form, vectors, and back
  return execute(handle, {.reads = {overwritten},
                          .writes = {vector(w, n * matrices, real_of(number)), overwritten},
                          .work = cubic(n, n, kOperations * n, number, matrices),
                          .info = info,
                          .matrices = matrices,
                          .pivots = {}});
}

// NOLINTBEGIN(bugprone-macro-parentheses): macro arguments are names of functions.
/// The algorithms of division and of Jacobi. `D`, `J`: their names.
#define SIMGPU_CUSOLVER_EIGENVALUES(D, J, number)                                                \
  SIMGPU_EXPORT int cusolverDn##D##_bufferSize(Handle* handle, int /*vectors*/, int /*uplo*/,    \
                                               int n, const void* /*a*/, int /*lda*/,            \
                                               const void* /*w*/, int* size) {                   \
    return answer(handle, size, n, n);                                                           \
  }                                                                                              \
  SIMGPU_EXPORT int cusolverDn##D(Handle* handle, int /*vectors*/, int /*uplo*/, int n, void* a, \
                                  int lda, void* w, void* /*work*/, int /*size*/, void* info) {  \
    return eigenvalues(handle, n, {a, lda}, w, number, info);                                    \
  }                                                                                              \
  SIMGPU_EXPORT int cusolverDn##J##_bufferSize(                                                  \
      Handle* handle, int /*vectors*/, int /*uplo*/, int n, const void* /*a*/, int /*lda*/,      \
      const void* /*w*/, int* size, const void* /*parameters*/) {                                \
    return answer(handle, size, n, n);                                                           \
  }                                                                                              \
  SIMGPU_EXPORT int cusolverDn##J(Handle* handle, int /*vectors*/, int /*uplo*/, int n, void* a, \
                                  int lda, void* w, void* /*work*/, int /*size*/, void* info,    \
                                  const void* /*parameters*/) {                                  \
    return eigenvalues(handle, n, {a, lda}, w, number, info);                                    \
  }                                                                                              \
  SIMGPU_EXPORT int cusolverDn##J##Batched_bufferSize(                                           \
      Handle* handle, int /*vectors*/, int /*uplo*/, int n, const void* /*a*/, int /*lda*/,      \
      const void* /*w*/, int* size, const void* /*parameters*/, int /*matrices*/) {              \
    return answer(handle, size, n, n);                                                           \
  }                                                                                              \
  SIMGPU_EXPORT int cusolverDn##J##Batched(                                                      \
      Handle* handle, int /*vectors*/, int /*uplo*/, int n, void* a, int lda, void* w,           \
      void* /*work*/, int /*size*/, void* info, const void* /*parameters*/, int matrices) {      \
    return eigenvalues(handle, n, {a, lda}, w, number, info, matrices);                          \
  }
SIMGPU_CUSOLVER_EIGENVALUES(Ssyevd, Ssyevj, kSingle)
SIMGPU_CUSOLVER_EIGENVALUES(Dsyevd, Dsyevj, kDouble)
SIMGPU_CUSOLVER_EIGENVALUES(Cheevd, Cheevj, kComplex)
SIMGPU_CUSOLVER_EIGENVALUES(Zheevd, Zheevj, kDoubleComplex)
#undef SIMGPU_CUSOLVER_EIGENVALUES
// NOLINTEND(bugprone-macro-parentheses)

}  // namespace simgpu::cusolver
