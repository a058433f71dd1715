// simgpu's libcusparse.so: solutions with tridiagonal matrices, each one launch.
#include <cstddef>
#include <cstdint>

#include "tools/simgpu/cublas/number.h"
#include "tools/simgpu/cusparse/execution.h"
#include "tools/simgpu/export.h"

namespace simgpu::cusparse {
namespace {

/// Solves systems of `rows` equations in the place of `solved`, with the three diagonals `lower`,
/// `diagonal` and `upper`, each of the bytes of `one`.
int solve_tridiagonal(const Handle* handle, ProductOperand lower, ProductOperand diagonal,
                      ProductOperand upper, ProductOperand solved, const Product& work) {
  return execute(handle, {lower, diagonal, upper, solved}, solved, work);
}

}  // namespace

// NOLINTBEGIN(bugprone-macro-parentheses): macro arguments are names of functions.
#define SIMGPU_CUSPARSE_TRIDIAGONAL(name, number)                                             \
  SIMGPU_EXPORT int cusparse##name##_bufferSizeExt(                                           \
      Handle* handle, int /*m*/, int /*n*/, const void* /*lower*/, const void* /*diagonal*/,  \
      const void* /*upper*/, const void* /*b*/, int /*ldb*/, std::size_t* bytes) {            \
    return answer(handle, bytes);                                                             \
  }                                                                                           \
  SIMGPU_EXPORT int cusparse##name(Handle* handle, int m, int n, const void* lower,           \
                                   const void* diagonal, const void* upper, void* b, int ldb, \
                                   void* /*buffer*/) {                                        \
    const std::uint64_t bytes = matrix_bytes(m, 1, m, (number).bytes);                        \
    return solve_tridiagonal(handle, {lower, bytes}, {diagonal, bytes}, {upper, bytes},       \
                             {b, matrix_bytes(m, n, ldb, (number).bytes)},                    \
                             cublas::product_of(m, n, 8, 1, number));                         \
  }
SIMGPU_CUSPARSE_TRIDIAGONAL(Sgtsv2, cublas::kSingle)
SIMGPU_CUSPARSE_TRIDIAGONAL(Dgtsv2, cublas::kDouble)
SIMGPU_CUSPARSE_TRIDIAGONAL(Cgtsv2, cublas::kComplex)
SIMGPU_CUSPARSE_TRIDIAGONAL(Zgtsv2, cublas::kDoubleComplex)
SIMGPU_CUSPARSE_TRIDIAGONAL(Sgtsv2_nopivot, cublas::kSingle)
SIMGPU_CUSPARSE_TRIDIAGONAL(Dgtsv2_nopivot, cublas::kDouble)
SIMGPU_CUSPARSE_TRIDIAGONAL(Cgtsv2_nopivot, cublas::kComplex)
SIMGPU_CUSPARSE_TRIDIAGONAL(Zgtsv2_nopivot, cublas::kDoubleComplex)
#undef SIMGPU_CUSPARSE_TRIDIAGONAL

#define SIMGPU_CUSPARSE_TRIDIAGONALS(T, number)                                                   \
  SIMGPU_EXPORT int cusparse##T##gtsv2StridedBatch_bufferSizeExt(                                 \
      Handle* handle, int /*m*/, const void* /*lower*/, const void* /*diagonal*/,                 \
      const void* /*upper*/, const void* /*x*/, int /*batch*/, int /*stride*/,                    \
      std::size_t* bytes) {                                                                       \
    return answer(handle, bytes);                                                                 \
  }                                                                                               \
  SIMGPU_EXPORT int cusparse##T##gtsv2StridedBatch(                                               \
      Handle* handle, int m, const void* lower, const void* diagonal, const void* upper, void* x, \
      int batch, int stride, void* /*buffer*/) {                                                  \
    const std::uint64_t bytes = matrix_bytes(m, batch, stride, (number).bytes);                   \
    return solve_tridiagonal(handle, {lower, bytes}, {diagonal, bytes}, {upper, bytes},           \
                             {x, bytes}, cublas::product_of(m, batch, 8, 1, number));             \
  }
SIMGPU_CUSPARSE_TRIDIAGONALS(S, cublas::kSingle)
SIMGPU_CUSPARSE_TRIDIAGONALS(D, cublas::kDouble)
SIMGPU_CUSPARSE_TRIDIAGONALS(C, cublas::kComplex)
SIMGPU_CUSPARSE_TRIDIAGONALS(Z, cublas::kDoubleComplex)
#undef SIMGPU_CUSPARSE_TRIDIAGONALS
// NOLINTEND(bugprone-macro-parentheses)

}  // namespace simgpu::cusparse
