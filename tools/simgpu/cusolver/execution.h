// How a routine of cuSOLVER reaches the device: launches that write its results, and its report.
#pragma once

#include <array>
#include <cstdint>

#include "tools/simgpu/cublas/number.h"
#include "tools/simgpu/cusolver/handle.h"
#include "tools/simgpu/cusolver/status.h"
#include "tools/simgpu/product_kernel.h"

namespace simgpu::cusolver {

using cublas::kComplex;
using cublas::kDouble;
using cublas::kDoubleComplex;
using cublas::kSingle;
using cublas::Number;

/// A real number of the precision of `number`.
inline Number real_of(Number number) {
  return number.is_complex ? Number{number.bytes / 2, false} : number;
}

/// A matrix as a routine's arguments have it, of numbers of `number`. `batch`: matrices one behind
/// the other, `stride` numbers apart; without a stride, without a gap. @return an operand without
/// an address where it is empty.
ProductOperand matrix(const void* address, std::int64_t rows, std::int64_t columns,
                      std::int64_t leading, Number number, std::int64_t batch = 1,
                      std::int64_t stride = 0);

/// `count` numbers side by side.
ProductOperand vector(const void* address, std::int64_t count, Number number);

/// Pivots that a routine writes.
struct Pivots {
  void* address = nullptr;
  std::int64_t count = 0;
  std::uint64_t number_bytes = 4;
};

/// One execution of a routine. Of the operands those without an address are left out.
struct Call {
  std::array<ProductOperand, 4> reads;   ///< overwritten matrices are read, too
  std::array<ProductOperand, 4> writes;  ///< overwritten matrices come last
  Product work;                          ///< how much it computes
  void* info = nullptr;                  ///< its report: 0 for each of
  std::int64_t matrices = 1;             ///< these
  Pivots pivots;
};

/// Launches what `call` says on the handle's stream. Any thread; waits on nothing.
/// @return kSuccess, kNotInitialized without a handle, or kExecutionFailed.
Status execute(const Handle* handle, const Call& call);

/// @name The work of `batch` factorisations, as products that take as long
/// Counts of operations are those of LAPACK ("LAPACK Working Note 41"), to a factor of two.
/// @{
Product cubic(std::int64_t m, std::int64_t n, std::int64_t k, Number number,
              std::int64_t batch = 1);
/// @}

/// The numbers of a work area that routines on a matrix ask for.
std::int64_t work_area(std::int64_t rows, std::int64_t columns);

/// Answers a question for the size of a work area, in numbers. Null: nothing is asked for.
Status answer(const Handle* handle, int* size, std::int64_t rows, std::int64_t columns);
/// The same in bytes, of the device and of the host.
Status answer(const Handle* handle, std::size_t* device_bytes, std::size_t* host_bytes,
              std::int64_t rows, std::int64_t columns, Number number);

}  // namespace simgpu::cusolver
