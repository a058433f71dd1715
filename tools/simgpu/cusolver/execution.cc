#include "tools/simgpu/cusolver/execution.h"

#include <algorithm>
#include <limits>

#include "tools/simgpu/cublas/launch.h"

namespace simgpu::cusolver {

ProductOperand matrix(const void* address, std::int64_t rows, std::int64_t columns,
                      std::int64_t leading, Number number, std::int64_t batch,
                      std::int64_t stride) {
  const std::uint64_t one = matrix_bytes(rows, columns, leading, number.bytes);
  if (address == nullptr || one == 0 || batch < 1) return {};
  const std::int64_t apart = stride != 0 ? stride : leading * columns;
  return {address, batch_bytes(one, batch, apart * static_cast<std::int64_t>(number.bytes))};
}

ProductOperand vector(const void* address, std::int64_t count, Number number) {
  return matrix(address, count, 1, count, number);
}

Status execute(const Handle* handle, const Call& call) {
  if (handle == nullptr) return kNotInitialized;
  const auto reports = static_cast<std::uint64_t>(std::max<std::int64_t>(call.matrices, 0));
  const Pivots& pivots = call.pivots;
  const bool done =
      cublas::execute(cublas::Routine::kSolver, handle->stream, call.reads, call.writes,
                      call.work) == cublas::kSuccess &&
      cublas::write_pivots(handle->stream, pivots.address, pivots.count, call.matrices,
                           pivots.number_bytes) == cublas::kSuccess &&
      cublas::clear(handle->stream, call.info, reports * sizeof(int)) == cublas::kSuccess;
  return done ? kSuccess : kExecutionFailed;
}

Product cubic(std::int64_t m, std::int64_t n, std::int64_t k, Number number, std::int64_t batch) {
  return cublas::product_of(m, n, std::max<std::int64_t>(k, 1), batch, number);
}

std::int64_t work_area(std::int64_t rows, std::int64_t columns) {
  // A panel of 32 columns or rows, and vectors of either side.
  constexpr std::int64_t kPanel = 32;
  return kPanel * (std::max<std::int64_t>(rows, 0) + std::max<std::int64_t>(columns, 0)) + kPanel;
}

Status answer(const Handle* handle, int* size, std::int64_t rows, std::int64_t columns) {
  if (handle == nullptr) return kNotInitialized;
  if (size == nullptr || rows < 0 || columns < 0) return kInvalidValue;
  *size = static_cast<int>(
      std::min<std::int64_t>(work_area(rows, columns), std::numeric_limits<int>::max()));
  return kSuccess;
}

Status answer(const Handle* handle, std::size_t* device_bytes, std::size_t* host_bytes,
              std::int64_t rows, std::int64_t columns, Number number) {
  if (handle == nullptr) return kNotInitialized;
  if (device_bytes == nullptr || host_bytes == nullptr || rows < 0 || columns < 0) {
    return kInvalidValue;
  }
  *device_bytes = static_cast<std::size_t>(work_area(rows, columns)) * number.bytes;
  *host_bytes = 0;
  return kSuccess;
}

}  // namespace simgpu::cusolver
