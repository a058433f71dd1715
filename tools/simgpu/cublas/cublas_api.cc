// simgpu's libcublas.so.13: the routines that frameworks call, each one launch.
//
// Operands are void pointers, whatever their type: the binary interface is the same, and the
// kernels have no code that would look at them.

#include <cuda.h>

#include <algorithm>
#include <cstdint>
#include <new>

#include "tools/simgpu/cublas/handle.h"
#include "tools/simgpu/cublas/information.h"
#include "tools/simgpu/cublas/launch.h"
#include "tools/simgpu/cublas/number.h"
#include "tools/simgpu/export.h"

namespace simgpu::cublas {
namespace {

int set(Handle* handle, int Handle::*field, int value) noexcept {
  if (handle == nullptr) return kNotInitialized;
  handle->*field = value;
  return kSuccess;
}

int get(const Handle* handle, int Handle::*field, int* value) noexcept {
  if (handle == nullptr) return kNotInitialized;
  if (value == nullptr) return kInvalidValue;
  *value = handle->*field;
  return kSuccess;
}

bool is_operation(int transpose) { return transpose >= 0 && transpose <= 3; }

/// A matrix as a product's arguments have it, or a batch of them.
struct Matrix {
  const void* address;
  std::uint64_t number_bytes;  ///< 0: not known
  std::int64_t leading;        ///< in numbers, as the stride
  std::int64_t stride = 0;

  /// Of the shape that the product's arguments give it.
  [[nodiscard]] ProductOperand operand(std::int64_t rows, std::int64_t columns,
                                       std::int64_t batches) const {
    const std::uint64_t one = matrix_bytes(rows, columns, leading, number_bytes);
    return {address, batch_bytes(one, batches, stride * static_cast<std::int64_t>(number_bytes))};
  }
  [[nodiscard]] ProductOperand operand(int transpose, std::int64_t rows, std::int64_t columns,
                                       std::int64_t batches) const {
    return transpose == 0 ? operand(rows, columns, batches) : operand(columns, rows, batches);
  }
};

/// A vector of `count` numbers that begin `step` numbers apart, the first one at the address, or
/// the last one if the step is negative.
ProductOperand vector(const void* address, std::int64_t count, std::int64_t step,
                      std::uint64_t number_bytes) {
  return {address, matrix_bytes(1, count, step, number_bytes)};
}

/// The extents of a product, as its arguments give them.
struct Extents {
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;
  std::int64_t batches = 1;
};

/// Checks a matrix product and launches it. Leading dimensions are not checked: no matrix is
/// walked. `number`: of A. `factor`: the bytes of alpha.
Status gemm(Routine routine, const Handle* handle, int transa, int transb, const Extents& extents,
            const void* alpha, const Matrix& a, const Matrix& b, const void* beta, const Matrix& c,
            Number number, std::uint64_t factor) {
  if (handle == nullptr) return kNotInitialized;
  const auto [m, n, k, batches] = extents;
  if (!is_operation(transa) || !is_operation(transb) || m < 0 || n < 0 || k < 0 || batches < 0 ||
      alpha == nullptr || beta == nullptr) {
    return kInvalidValue;
  }
  if (m == 0 || n == 0 || batches == 0) return kSuccess;
  // With k = 0 the routine only scales C.
  const ProductOperand none{};
  const ProductOperand result = c.operand(m, n, batches);
  return launch(
      routine, handle->stream,
      {k == 0 ? none : a.operand(transa, m, k, batches),
       k == 0 ? none : b.operand(transb, k, n, batches), scalar(*handle, alpha, factor),
       scalar(*handle, beta, factor), added_to(handle->pointer_mode, beta, factor, result)},
      result, product_of(m, n, k, batches, number));
}

Status gemv(const Handle* handle, int transpose, int m, int n, const void* alpha, const Matrix& a,
            const void* x, int x_step, const void* beta, const void* y, int y_step, Number number) {
  if (handle == nullptr) return kNotInitialized;
  if (!is_operation(transpose) || m < 0 || n < 0 || x_step == 0 || y_step == 0 ||
      alpha == nullptr || beta == nullptr) {
    return kInvalidValue;
  }
  if (m == 0 || n == 0) return kSuccess;
  const int rows = transpose == 0 ? m : n;
  const int sum = transpose == 0 ? n : m;
  const ProductOperand result = vector(y, rows, y_step, number.bytes);
  return launch(Routine::kGemv, handle->stream,
                {a.operand(m, n, 1), vector(x, sum, x_step, number.bytes),
                 scalar(*handle, alpha, number.bytes), scalar(*handle, beta, number.bytes),
                 added_to(handle->pointer_mode, beta, number.bytes, result)},
                result, product_of(rows, 1, sum, 1, number));
}

/// Multiplies the `n` numbers `x`, of `number`, by a factor, in their place.
Status scale(const Handle* handle, int n, const void* factor, const void* x, int x_step,
             std::uint64_t factor_size, Number number) {
  if (handle == nullptr) return kNotInitialized;
  if (factor == nullptr) return kInvalidValue;
  if (n <= 0 || x_step <= 0) return kSuccess;
  const ProductOperand scaled = vector(x, n, x_step, number.bytes);
  return launch(Routine::kScale, handle->stream, {scaled, scalar(*handle, factor, factor_size)},
                scaled, product_of(n, 1, 1, 1, number));
}

/// `x` and `y` are of `n` numbers.
Status dot(const Handle* handle, int n, ProductOperand x, ProductOperand y, ProductOperand result,
           Number number) {
  if (handle == nullptr) return kNotInitialized;
  if (result.address == nullptr) return kInvalidValue;
  // A result on the host would need a copy back here; frameworks ask for it on the device.
  if (handle->pointer_mode != kDevice) return kNotSupported;
  const ProductOperand none{};
  return launch(Routine::kDot, handle->stream, {n <= 0 ? none : x, n <= 0 ? none : y}, result,
                product_of(1, 1, std::max(n, 0), 1, number));
}

}  // namespace

SIMGPU_EXPORT int cublasCreate_v2(Handle** handle) {
  if (handle == nullptr) return kInvalidValue;
  if (const auto status = check_context(); status != kSuccess) return status;
  auto* const created = new (std::nothrow) Handle;
  if (created == nullptr) return kAllocFailed;
  *handle = created;
  return kSuccess;
}

SIMGPU_EXPORT int cublasDestroy_v2(Handle* handle) {
  if (handle == nullptr) return kNotInitialized;
  delete handle;
  return kSuccess;
}

SIMGPU_EXPORT int cublasSetStream_v2(Handle* handle, CUstream stream) {
  if (handle == nullptr) return kNotInitialized;
  handle->stream = stream;
  return kSuccess;
}

SIMGPU_EXPORT int cublasGetStream_v2(Handle* handle, CUstream* stream) {
  if (handle == nullptr) return kNotInitialized;
  if (stream == nullptr) return kInvalidValue;
  *stream = handle->stream;
  return kSuccess;
}

/// Ignores the workspace: it is for intermediate results, and there are none.
SIMGPU_EXPORT int cublasSetWorkspace_v2(Handle* handle, void* /*workspace*/,
                                        std::size_t /*bytes*/) {
  return handle == nullptr ? kNotInitialized : kSuccess;
}

SIMGPU_EXPORT int cublasSetPointerMode_v2(Handle* handle, int mode) {
  if (handle == nullptr) return kNotInitialized;
  if (mode != kHost && mode != kDevice) return kInvalidValue;
  handle->pointer_mode = mode;
  return kSuccess;
}

SIMGPU_EXPORT int cublasGetPointerMode_v2(Handle* handle, int* mode) {
  return get(handle, &Handle::pointer_mode, mode);
}

// What these set changes no result, and no time that simgpu models.
SIMGPU_EXPORT int cublasSetMathMode(Handle* handle, int mode) {
  return set(handle, &Handle::math_mode, mode);
}
SIMGPU_EXPORT int cublasGetMathMode(Handle* handle, int* mode) {
  return get(handle, &Handle::math_mode, mode);
}
SIMGPU_EXPORT int cublasSetAtomicsMode(Handle* handle, int mode) {
  return set(handle, &Handle::atomics_mode, mode);
}
SIMGPU_EXPORT int cublasGetAtomicsMode(Handle* handle, int* mode) {
  return get(handle, &Handle::atomics_mode, mode);
}
SIMGPU_EXPORT int cublasSetSmCountTarget(Handle* handle, int multiprocessors) {
  if (handle != nullptr && multiprocessors < 0) return kInvalidValue;
  return set(handle, &Handle::multiprocessors, multiprocessors);
}
SIMGPU_EXPORT int cublasGetSmCountTarget(Handle* handle, int* multiprocessors) {
  return get(handle, &Handle::multiprocessors, multiprocessors);
}

/// XLA asks without a handle, for which NVIDIA's library has an answer, too.
SIMGPU_EXPORT int cublasGetVersion_v2(Handle* /*handle*/, int* version) {
  if (version == nullptr) return kInvalidValue;
  *version = kVersion;
  return kSuccess;
}
SIMGPU_EXPORT int cublasGetProperty(int property, int* value) {
  return version_part(property, value);
}
SIMGPU_EXPORT std::size_t cublasGetCudartVersion() { return kRuntimeVersion; }
SIMGPU_EXPORT const char* cublasGetStatusName(int status) { return status_name(status); }
SIMGPU_EXPORT const char* cublasGetStatusString(int status) { return status_text(status); }

/// Nothing is logged, whatever is asked for.
SIMGPU_EXPORT int cublasLoggerConfigure(int /*is_on*/, int /*to_stdout*/, int /*to_stderr*/,
                                        const char* /*file*/) {
  return kSuccess;
}

// One routine for each of the four types. NOLINTBEGIN(bugprone-macro-parentheses): names
#define SIMGPU_CUBLAS_ROUTINES(T, number)                                                        \
  SIMGPU_EXPORT int cublas##T##gemm_v2(                                                          \
      Handle* handle, int transa, int transb, int m, int n, int k, const void* alpha,            \
      const void* a, int lda, const void* b, int ldb, const void* beta, void* c, int ldc) {      \
    return gemm(Routine::kGemm, handle, transa, transb, {m, n, k}, alpha,                        \
                {a, (number).bytes, lda}, {b, (number).bytes, ldb}, beta,                        \
                {c, (number).bytes, ldc}, number, (number).bytes);                               \
  }                                                                                              \
  SIMGPU_EXPORT int cublas##T##gemmStridedBatched(                                               \
      Handle* handle, int transa, int transb, int m, int n, int k, const void* alpha,            \
      const void* a, int lda, long long stride_a, const void* b, int ldb, long long stride_b,    \
      const void* beta, void* c, int ldc, long long stride_c, int batches) {                     \
    return gemm(Routine::kGemmStridedBatched, handle, transa, transb, {m, n, k, batches}, alpha, \
                {a, (number).bytes, lda, stride_a}, {b, (number).bytes, ldb, stride_b}, beta,    \
                {c, (number).bytes, ldc, stride_c}, number, (number).bytes);                     \
  }                                                                                              \
  SIMGPU_EXPORT int cublas##T##gemv_v2(Handle* handle, int transpose, int m, int n,              \
                                       const void* alpha, const void* a, int lda, const void* x, \
                                       int x_step, const void* beta, void* y, int y_step) {      \
    return gemv(handle, transpose, m, n, alpha, {a, (number).bytes, lda}, x, x_step, beta, y,    \
                y_step, number);                                                                 \
  }
SIMGPU_CUBLAS_ROUTINES(S, kSingle)
SIMGPU_CUBLAS_ROUTINES(D, kDouble)
SIMGPU_CUBLAS_ROUTINES(C, kComplex)
SIMGPU_CUBLAS_ROUTINES(Z, kDoubleComplex)
#undef SIMGPU_CUBLAS_ROUTINES

#define SIMGPU_CUBLAS_DOT(name, number)                                                   \
  SIMGPU_EXPORT int name(Handle* handle, int n, const void* x, int x_step, const void* y, \
                         int y_step, void* result) {                                      \
    return dot(handle, n, vector(x, n, x_step, (number).bytes),                           \
               vector(y, n, y_step, (number).bytes), {result, (number).bytes}, number);   \
  }
SIMGPU_CUBLAS_DOT(cublasSdot_v2, kSingle)
SIMGPU_CUBLAS_DOT(cublasDdot_v2, kDouble)
SIMGPU_CUBLAS_DOT(cublasCdotu_v2, kComplex)
SIMGPU_CUBLAS_DOT(cublasCdotc_v2, kComplex)
SIMGPU_CUBLAS_DOT(cublasZdotu_v2, kDoubleComplex)
SIMGPU_CUBLAS_DOT(cublasZdotc_v2, kDoubleComplex)
#undef SIMGPU_CUBLAS_DOT
#define SIMGPU_CUBLAS_SCALE(name, factor_type, number)                                     \
  SIMGPU_EXPORT int name(Handle* handle, int n, const void* factor, void* x, int x_step) { \
    return scale(handle, n, factor, x, x_step, (factor_type).bytes, number);               \
  }
SIMGPU_CUBLAS_SCALE(cublasSscal_v2, kSingle, kSingle)
SIMGPU_CUBLAS_SCALE(cublasDscal_v2, kDouble, kDouble)
SIMGPU_CUBLAS_SCALE(cublasCscal_v2, kComplex, kComplex)
SIMGPU_CUBLAS_SCALE(cublasCsscal_v2, kSingle, kComplex)
SIMGPU_CUBLAS_SCALE(cublasZscal_v2, kDoubleComplex, kDoubleComplex)
SIMGPU_CUBLAS_SCALE(cublasZdscal_v2, kDouble, kDoubleComplex)
#undef SIMGPU_CUBLAS_SCALE
// NOLINTEND(bugprone-macro-parentheses)

SIMGPU_EXPORT int cublasDotEx(Handle* handle, int n, const void* x, int x_type, int x_step,
                              const void* y, int y_type, int y_step, void* result, int result_type,
                              int /*execution_type*/) {
  return dot(handle, n, vector(x, n, x_step, bytes_of(x_type)),
             vector(y, n, y_step, bytes_of(y_type)), {result, bytes_of(result_type)},
             number_of(x_type));
}

SIMGPU_EXPORT int cublasSgemmEx(Handle* handle, int transa, int transb, int m, int n, int k,
                                const void* alpha, const void* a, int a_type, int lda,
                                const void* b, int b_type, int ldb, const void* beta, void* c,
                                int c_type, int ldc) {
  return gemm(Routine::kGemm, handle, transa, transb, {m, n, k}, alpha, {a, bytes_of(a_type), lda},
              {b, bytes_of(b_type), ldb}, beta, {c, bytes_of(c_type), ldc}, number_of(a_type),
              kSingle.bytes);
}

SIMGPU_EXPORT int cublasGemmEx(Handle* handle, int transa, int transb, int m, int n, int k,
                               const void* alpha, const void* a, int a_type, int lda, const void* b,
                               int b_type, int ldb, const void* beta, void* c, int c_type, int ldc,
                               int compute_type, int /*algorithm*/) {
  const Number number = number_of(a_type);
  return gemm(Routine::kGemm, handle, transa, transb, {m, n, k}, alpha, {a, bytes_of(a_type), lda},
              {b, bytes_of(b_type), ldb}, beta, {c, bytes_of(c_type), ldc}, number,
              factor_bytes(compute_type, number.is_complex));
}

SIMGPU_EXPORT int cublasGemmStridedBatchedEx(Handle* handle, int transa, int transb, int m, int n,
                                             int k, const void* alpha, const void* a, int a_type,
                                             int lda, long long stride_a, const void* b, int b_type,
                                             int ldb, long long stride_b, const void* beta, void* c,
                                             int c_type, int ldc, long long stride_c, int batches,
                                             int compute_type, int /*algorithm*/) {
  const Number number = number_of(a_type);
  return gemm(Routine::kGemmStridedBatched, handle, transa, transb, {m, n, k, batches}, alpha,
              {a, bytes_of(a_type), lda, stride_a}, {b, bytes_of(b_type), ldb, stride_b}, beta,
              {c, bytes_of(c_type), ldc, stride_c}, number,
              factor_bytes(compute_type, number.is_complex));
}

}  // namespace simgpu::cublas
