// Handles and descriptors of cuSPARSE, which a program knows by their addresses.
#pragma once

#include <cuda.h>

#include <array>
#include <cstdint>

#include "tools/simgpu/cublas/status.h"
#include "tools/simgpu/product_kernel.h"

namespace simgpu::cusparse {

/// What a cusparseHandle_t points to. As with NVIDIA's library, one thread at a time.
struct Handle {
  CUstream stream = nullptr;
  int pointer_mode = cublas::kHost;
};

/// What a cusparseMatDescr_t points to: what is said of a matrix of the older routines.
struct MatrixKind {
  int type = 0;
  int fill_mode = 0;
  int diagonal_type = 0;
  int index_base = 0;
};

/// A sparse matrix, or a batch of them: its entries are in three arrays.
struct SparseMatrix {
  /// One of the arrays: `count` numbers for each matrix of the batch, `stride` numbers apart.
  struct Array {
    void* address = nullptr;
    std::int64_t count = 0;
    std::uint64_t number_bytes = 4;
    std::int64_t stride = 0;
  };

  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t entries = 0;
  int value_type = 0;  ///< cudaDataType_t
  Array offsets;       ///< of rows or columns; of coordinates, the rows
  Array indices;
  Array values;
  std::int64_t batch = 1;

  /// The arrays as operands.
  [[nodiscard]] std::array<ProductOperand, 3> operands() const;
};

/// A dense matrix, or a batch of them; a vector is a matrix of one column.
struct DenseMatrix {
  std::int64_t rows = 0;
  std::int64_t columns = 1;
  std::int64_t leading = 0;
  void* values = nullptr;
  int value_type = 0;  ///< cudaDataType_t
  bool by_rows = false;
  std::int64_t batch = 1;
  std::int64_t stride = 0;  ///< in numbers

  [[nodiscard]] ProductOperand operand() const;
};

/// The array as an operand, for `batch` matrices.
ProductOperand operand_of(const SparseMatrix::Array& array, std::int64_t batch);

}  // namespace simgpu::cusparse
