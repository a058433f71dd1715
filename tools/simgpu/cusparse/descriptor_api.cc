// simgpu's libcusparse.so: descriptors of sparse and dense matrices.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "tools/simgpu/cublas/number.h"
#include "tools/simgpu/cusparse/descriptor.h"
#include "tools/simgpu/cusparse/status.h"
#include "tools/simgpu/export.h"
#include "tools/simgpu/host_memory.h"

namespace simgpu::cusparse {

ProductOperand operand_of(const SparseMatrix::Array& array, std::int64_t batch) {
  const std::uint64_t one = matrix_bytes(array.count, 1, array.count, array.number_bytes);
  if (array.address == nullptr || one == 0) return {};
  // Without a stride all matrices of a batch have the same array.
  const std::int64_t matrices = array.stride == 0 ? 1 : batch;
  const auto apart = array.stride * static_cast<std::int64_t>(array.number_bytes);
  return {array.address, batch_bytes(one, matrices, apart)};
}

std::array<ProductOperand, 3> SparseMatrix::operands() const {
  return {operand_of(offsets, batch), operand_of(indices, batch), operand_of(values, batch)};
}

ProductOperand DenseMatrix::operand() const {
  const std::uint64_t number = cublas::bytes_of(value_type);
  const std::uint64_t one =
      matrix_bytes(by_rows ? columns : rows, by_rows ? rows : columns, leading, number);
  if (values == nullptr || rows < 1 || columns < 1) return {};
  return {values,
          batch_bytes(one, stride == 0 ? 1 : batch, stride * static_cast<std::int64_t>(number))};
}

namespace {

constexpr int kByRows = 2;  ///< cusparseOrder_t

/// Bytes of an index of that cusparseIndexType_t.
std::uint64_t index_bytes(int type) {
  constexpr int k16 = 1;
  constexpr int k64 = 3;
  return type == k64 ? 8 : type == k16 ? 2 : 4;
}

/// Gives the program a copy of `made`.
template <typename Descriptor>
int give(Descriptor** target, const Descriptor& made) {
  if (target == nullptr || made.rows < 0 || made.columns < 0) return kInvalidValue;
  return give_copy(target, made) ? kSuccess : kAllocFailed;
}

/// A matrix with `offsets` for `lines` rows or columns.
int give_compressed(SparseMatrix** target, std::int64_t rows, std::int64_t columns,
                    std::int64_t entries, std::int64_t lines, void* offsets, void* indices,
                    void* values, int offset_type, int index_type, int value_type) {
  return give(target, {.rows = rows,
                       .columns = columns,
                       .entries = entries,
                       .value_type = value_type,
                       .offsets = {offsets, lines + 1, index_bytes(offset_type), 0},
                       .indices = {indices, entries, index_bytes(index_type), 0},
                       .values = {values, entries, cublas::bytes_of(value_type), 0},
                       .batch = 1});
}

int set_pointers(SparseMatrix* matrix, void* offsets, void* indices, void* values) {
  if (matrix == nullptr) return kInvalidValue;
  matrix->offsets.address = offsets;
  matrix->indices.address = indices;
  matrix->values.address = values;
  return kSuccess;
}

int set_batch(SparseMatrix* matrix, int batch, std::int64_t offset_stride, std::int64_t stride) {
  if (matrix == nullptr || batch < 1) return kInvalidValue;
  matrix->batch = batch;
  matrix->offsets.stride = offset_stride;
  matrix->indices.stride = stride;
  matrix->values.stride = stride;
  return kSuccess;
}

}  // namespace

// NOLINTBEGIN(bugprone-macro-parentheses): macro arguments are parts of names.
/// Descriptors of what the program only reads are made alike. `Const`: "Const" or nothing.
#define SIMGPU_CUSPARSE_DESCRIPTORS(Const)                                                       \
  SIMGPU_EXPORT int cusparseCreate##Const##Csr(                                                  \
      SparseMatrix** matrix, std::int64_t rows, std::int64_t columns, std::int64_t entries,      \
      void* offsets, void* indices, void* values, int offset_type, int index_type, int /*base*/, \
      int value_type) {                                                                          \
    return give_compressed(matrix, rows, columns, entries, rows, offsets, indices, values,       \
                           offset_type, index_type, value_type);                                 \
  }                                                                                              \
  SIMGPU_EXPORT int cusparseCreate##Const##Csc(                                                  \
      SparseMatrix** matrix, std::int64_t rows, std::int64_t columns, std::int64_t entries,      \
      void* offsets, void* indices, void* values, int offset_type, int index_type, int /*base*/, \
      int value_type) {                                                                          \
    return give_compressed(matrix, rows, columns, entries, columns, offsets, indices, values,    \
                           offset_type, index_type, value_type);                                 \
  }                                                                                              \
  SIMGPU_EXPORT int cusparseCreate##Const##Coo(                                                  \
      SparseMatrix** matrix, std::int64_t rows, std::int64_t columns, std::int64_t entries,      \
      void* row_indices, void* column_indices, void* values, int index_type, int /*base*/,       \
      int value_type) {                                                                          \
    return give_compressed(matrix, rows, columns, entries, entries - 1, row_indices,             \
                           column_indices, values, index_type, index_type, value_type);          \
  }                                                                                              \
  SIMGPU_EXPORT int cusparseCreate##Const##DnVec(DenseMatrix** vector, std::int64_t size,        \
                                                 void* values, int value_type) {                 \
    return give(vector, {.rows = size,                                                           \
                         .columns = 1,                                                           \
                         .leading = size,                                                        \
                         .values = values,                                                       \
                         .value_type = value_type,                                               \
                         .by_rows = false,                                                       \
                         .batch = 1,                                                             \
                         .stride = 0});                                                          \
  }                                                                                              \
  SIMGPU_EXPORT int cusparseCreate##Const##DnMat(DenseMatrix** matrix, std::int64_t rows,        \
                                                 std::int64_t columns, std::int64_t leading,     \
                                                 void* values, int value_type, int order) {      \
    return give(matrix, {.rows = rows,                                                           \
                         .columns = columns,                                                     \
                         .leading = leading,                                                     \
                         .values = values,                                                       \
                         .value_type = value_type,                                               \
                         .by_rows = order == kByRows,                                            \
                         .batch = 1,                                                             \
                         .stride = 0});                                                          \
  }
SIMGPU_CUSPARSE_DESCRIPTORS()
SIMGPU_CUSPARSE_DESCRIPTORS(Const)
#undef SIMGPU_CUSPARSE_DESCRIPTORS
// NOLINTEND(bugprone-macro-parentheses)

SIMGPU_EXPORT int cusparseDestroySpMat(const SparseMatrix* matrix) {
  delete matrix;  // null is allowed
  return kSuccess;
}

SIMGPU_EXPORT int cusparseSpMatGetSize(const SparseMatrix* matrix, std::int64_t* rows,
                                       std::int64_t* columns, std::int64_t* entries) {
  if (matrix == nullptr || rows == nullptr || columns == nullptr || entries == nullptr) {
    return kInvalidValue;
  }
  *rows = matrix->rows;
  *columns = matrix->columns;
  *entries = matrix->entries;
  return kSuccess;
}

SIMGPU_EXPORT int cusparseSpMatSetValues(SparseMatrix* matrix, void* values) {
  if (matrix == nullptr) return kInvalidValue;
  matrix->values.address = values;
  return kSuccess;
}

/// Attributes, as whether a matrix is triangular, change no operand.
SIMGPU_EXPORT int cusparseSpMatSetAttribute(SparseMatrix* matrix, int /*attribute*/,
                                            const void* /*data*/, std::size_t /*size*/) {
  return matrix == nullptr ? kInvalidValue : kSuccess;
}

SIMGPU_EXPORT int cusparseCsrSetPointers(SparseMatrix* matrix, void* offsets, void* indices,
                                         void* values) {
  return set_pointers(matrix, offsets, indices, values);
}
SIMGPU_EXPORT int cusparseCscSetPointers(SparseMatrix* matrix, void* offsets, void* indices,
                                         void* values) {
  return set_pointers(matrix, offsets, indices, values);
}
SIMGPU_EXPORT int cusparseCooSetPointers(SparseMatrix* matrix, void* rows, void* columns,
                                         void* values) {
  return set_pointers(matrix, rows, columns, values);
}

SIMGPU_EXPORT int cusparseCsrSetStridedBatch(SparseMatrix* matrix, int batch,
                                             std::int64_t offset_stride, std::int64_t stride) {
  return set_batch(matrix, batch, offset_stride, stride);
}
SIMGPU_EXPORT int cusparseCooSetStridedBatch(SparseMatrix* matrix, int batch, std::int64_t stride) {
  return set_batch(matrix, batch, stride, stride);
}

SIMGPU_EXPORT int cusparseDestroyDnVec(const DenseMatrix* vector) {
  delete vector;  // null is allowed
  return kSuccess;
}
SIMGPU_EXPORT int cusparseDnVecSetValues(DenseMatrix* vector, void* values) {
  if (vector == nullptr) return kInvalidValue;
  vector->values = values;
  return kSuccess;
}
SIMGPU_EXPORT int cusparseDestroyDnMat(const DenseMatrix* matrix) {
  delete matrix;  // null is allowed
  return kSuccess;
}
SIMGPU_EXPORT int cusparseDnMatSetValues(DenseMatrix* matrix, void* values) {
  if (matrix == nullptr) return kInvalidValue;
  matrix->values = values;
  return kSuccess;
}
SIMGPU_EXPORT int cusparseDnMatSetStridedBatch(DenseMatrix* matrix, int batch,
                                               std::int64_t stride) {
  if (matrix == nullptr || batch < 1) return kInvalidValue;
  matrix->batch = batch;
  matrix->stride = stride;
  return kSuccess;
}

}  // namespace simgpu::cusparse
