// simgpu's libcusparse.so: products and solutions with sparse matrices, each one launch.
#include <cstddef>
#include <cstdint>

#include "tools/simgpu/cublas/number.h"
#include "tools/simgpu/cusparse/execution.h"
#include "tools/simgpu/export.h"
#include "tools/simgpu/host_memory.h"

namespace simgpu::cusparse {
namespace {

/// What cusparseSpSVDescr_t and cusparseSpSMDescr_t point to: nothing is remembered of an analysis.
struct Analysis {
  int unused = 0;
};

int create_analysis(Analysis** analysis) {
  if (analysis == nullptr) return kInvalidValue;
  return give_copy(analysis) ? kSuccess : kAllocFailed;
}

/// A factor that lies on the device.
ProductOperand scalar(const Handle* handle, const void* value, int type) {
  const bool is_there = handle != nullptr && handle->pointer_mode == cublas::kDevice;
  return is_there ? ProductOperand{value, cublas::bytes_of(type)} : ProductOperand{};
}

/// One multiplication for each entry and column.
Product work_of(const SparseMatrix& matrix, std::int64_t columns) {
  return cublas::product_of(matrix.entries, columns, 1, matrix.batch,
                            cublas::number_of(matrix.value_type));
}

/// The result as far as it is read: nothing where `beta` is a zero on the host.
ProductOperand added_to(const Handle* handle, const void* beta, int type,
                        const ProductOperand& result) {
  const int pointer_mode = handle == nullptr ? int{cublas::kHost} : handle->pointer_mode;
  return cublas::added_to(pointer_mode, beta, cublas::bytes_of(type), result);
}

/// The product of a sparse and a dense matrix, or the solution with a triangular one, in `c`, to
/// which it is added if there is a `beta`.
int multiply(const Handle* handle, const void* alpha, const SparseMatrix* a, const DenseMatrix* b,
             const void* beta, const DenseMatrix* c, int type) {
  if (a == nullptr || b == nullptr || c == nullptr || alpha == nullptr) return kInvalidValue;
  const auto [offsets, indices, values] = a->operands();
  const ProductOperand result = c->operand();
  return execute(handle,
                 {offsets, indices, values, b->operand(), scalar(handle, alpha, type),
                  scalar(handle, beta, type), added_to(handle, beta, type, result)},
                 result, work_of(*a, c->columns));
}

}  // namespace

SIMGPU_EXPORT int cusparseSpMV_bufferSize(Handle* handle, int /*operation*/, const void* /*alpha*/,
                                          const void* /*a*/, const void* /*x*/,
                                          const void* /*beta*/, const void* /*y*/, int /*type*/,
                                          int /*algorithm*/, std::size_t* bytes) {
  return answer(handle, bytes);
}
SIMGPU_EXPORT int cusparseSpMV_preprocess(Handle* handle, int /*operation*/, const void* /*alpha*/,
                                          const void* /*a*/, const void* /*x*/,
                                          const void* /*beta*/, const void* /*y*/, int /*type*/,
                                          int /*algorithm*/, void* /*buffer*/) {
  return handle == nullptr ? kNotInitialized : kSuccess;
}
SIMGPU_EXPORT int cusparseSpMV(Handle* handle, int /*operation*/, const void* alpha,
                               const SparseMatrix* a, const DenseMatrix* x, const void* beta,
                               const DenseMatrix* y, int type, int /*algorithm*/,
                               void* /*buffer*/) {
  return multiply(handle, alpha, a, x, beta, y, type);
}

SIMGPU_EXPORT int cusparseSpMM_bufferSize(Handle* handle, int /*of_a*/, int /*of_b*/,
                                          const void* /*alpha*/, const void* /*a*/,
                                          const void* /*b*/, const void* /*beta*/,
                                          const void* /*c*/, int /*type*/, int /*algorithm*/,
                                          std::size_t* bytes) {
  return answer(handle, bytes);
}
SIMGPU_EXPORT int cusparseSpMM_preprocess(Handle* handle, int /*of_a*/, int /*of_b*/,
                                          const void* /*alpha*/, const void* /*a*/,
                                          const void* /*b*/, const void* /*beta*/,
                                          const void* /*c*/, int /*type*/, int /*algorithm*/,
                                          void* /*buffer*/) {
  return handle == nullptr ? kNotInitialized : kSuccess;
}
SIMGPU_EXPORT int cusparseSpMM(Handle* handle, int /*of_a*/, int /*of_b*/, const void* alpha,
                               const SparseMatrix* a, const DenseMatrix* b, const void* beta,
                               const DenseMatrix* c, int type, int /*algorithm*/,
                               void* /*buffer*/) {
  return multiply(handle, alpha, a, b, beta, c, type);
}

SIMGPU_EXPORT int cusparseSDDMM_bufferSize(Handle* handle, int /*of_a*/, int /*of_b*/,
                                           const void* /*alpha*/, const void* /*a*/,
                                           const void* /*b*/, const void* /*beta*/,
                                           const void* /*c*/, int /*type*/, int /*algorithm*/,
                                           std::size_t* bytes) {
  return answer(handle, bytes);
}
SIMGPU_EXPORT int cusparseSDDMM_preprocess(Handle* handle, int /*of_a*/, int /*of_b*/,
                                           const void* /*alpha*/, const void* /*a*/,
                                           const void* /*b*/, const void* /*beta*/,
                                           const void* /*c*/, int /*type*/, int /*algorithm*/,
                                           void* /*buffer*/) {
  return handle == nullptr ? kNotInitialized : kSuccess;
}
/// The product of dense matrices where `c` has entries, whose values it changes.
SIMGPU_EXPORT int cusparseSDDMM(Handle* handle, int /*of_a*/, int /*of_b*/, const void* alpha,
                                const DenseMatrix* a, const DenseMatrix* b, const void* beta,
                                const SparseMatrix* c, int type, int /*algorithm*/,
                                void* /*buffer*/) {
  if (a == nullptr || b == nullptr || c == nullptr || alpha == nullptr || beta == nullptr) {
    return kInvalidValue;
  }
  const auto [offsets, indices, values] = c->operands();
  return execute(handle,
                 {offsets, indices, a->operand(), b->operand(), scalar(handle, alpha, type),
                  scalar(handle, beta, type), added_to(handle, beta, type, values)},
                 values, work_of(*c, a->columns));
}

SIMGPU_EXPORT int cusparseSpSV_createDescr(Analysis** analysis) {
  return create_analysis(analysis);
}
SIMGPU_EXPORT int cusparseSpSV_destroyDescr(Analysis* analysis) {
  delete analysis;  // null is allowed
  return kSuccess;
}
SIMGPU_EXPORT int cusparseSpSV_bufferSize(Handle* handle, int /*operation*/, const void* /*alpha*/,
                                          const void* /*a*/, const void* /*x*/, const void* /*y*/,
                                          int /*type*/, int /*algorithm*/, void* /*analysis*/,
                                          std::size_t* bytes) {
  return answer(handle, bytes);
}
SIMGPU_EXPORT int cusparseSpSV_analysis(Handle* handle, int /*operation*/, const void* /*alpha*/,
                                        const void* /*a*/, const void* /*x*/, const void* /*y*/,
                                        int /*type*/, int /*algorithm*/, void* /*analysis*/,
                                        void* /*buffer*/) {
  return handle == nullptr ? kNotInitialized : kSuccess;
}
SIMGPU_EXPORT int cusparseSpSV_solve(Handle* handle, int /*operation*/, const void* alpha,
                                     const SparseMatrix* a, const DenseMatrix* x,
                                     const DenseMatrix* y, int type, int /*algorithm*/,
                                     void* /*analysis*/) {
  return multiply(handle, alpha, a, x, nullptr, y, type);
}

SIMGPU_EXPORT int cusparseSpSM_createDescr(Analysis** analysis) {
  return create_analysis(analysis);
}
SIMGPU_EXPORT int cusparseSpSM_destroyDescr(Analysis* analysis) {
  delete analysis;  // null is allowed
  return kSuccess;
}
SIMGPU_EXPORT int cusparseSpSM_bufferSize(Handle* handle, int /*of_a*/, int /*of_b*/,
                                          const void* /*alpha*/, const void* /*a*/,
                                          const void* /*b*/, const void* /*c*/, int /*type*/,
                                          int /*algorithm*/, void* /*analysis*/,
                                          std::size_t* bytes) {
  return answer(handle, bytes);
}
SIMGPU_EXPORT int cusparseSpSM_analysis(Handle* handle, int /*of_a*/, int /*of_b*/,
                                        const void* /*alpha*/, const void* /*a*/, const void* /*b*/,
                                        const void* /*c*/, int /*type*/, int /*algorithm*/,
                                        void* /*analysis*/, void* /*buffer*/) {
  return handle == nullptr ? kNotInitialized : kSuccess;
}
SIMGPU_EXPORT int cusparseSpSM_solve(Handle* handle, int /*of_a*/, int /*of_b*/, const void* alpha,
                                     const SparseMatrix* a, const DenseMatrix* b,
                                     const DenseMatrix* c, int type, int /*algorithm*/,
                                     void* /*analysis*/) {
  return multiply(handle, alpha, a, b, nullptr, c, type);
}

SIMGPU_EXPORT int cusparseSparseToDense_bufferSize(Handle* handle, const void* /*sparse*/,
                                                   const void* /*dense*/, int /*algorithm*/,
                                                   std::size_t* bytes) {
  return answer(handle, bytes);
}
SIMGPU_EXPORT int cusparseSparseToDense(Handle* handle, const SparseMatrix* sparse,
                                        const DenseMatrix* dense, int /*algorithm*/,
                                        void* /*buffer*/) {
  if (sparse == nullptr || dense == nullptr) return kInvalidValue;
  const auto [offsets, indices, values] = sparse->operands();
  return execute(handle, {offsets, indices, values}, dense->operand(), work_of(*sparse, 1));
}

/// The offsets of rows, from the row of each entry.
SIMGPU_EXPORT int cusparseXcoo2csr(Handle* handle, const void* rows, int entries, int count,
                                   void* offsets, int /*base*/) {
  const SparseMatrix::Array read{const_cast<void*>(rows), entries, sizeof(int), 0};
  const SparseMatrix::Array written{offsets, std::int64_t{count} + 1, sizeof(int), 0};
  return execute(handle, {operand_of(read, 1)}, operand_of(written, 1),
                 cublas::product_of(entries, 1, 1, 1, cublas::kSingle));
}

}  // namespace simgpu::cusparse
