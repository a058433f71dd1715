// Variables of a program's device code, and copies to and from them.

#include "tools/simgpu/cudart/registry.h"

namespace simgpu::cudart {

namespace {

/// Writes the address `offset` bytes into a variable to `*address`.
/// @return cudaErrorInvalidValue unless `count` bytes from there lie inside the variable.
cudaError_t place(const void* symbol, size_t count, size_t offset, void** address) {
  CUdeviceptr start = 0;
  size_t bytes = 0;
  const cudaError_t error = with_context(
      [&](const DriverTable&) { return Registry::instance().variable(symbol, &start, &bytes); });
  if (error != cudaSuccess) return error;
  if (offset > bytes || count > bytes - offset) return record(cudaErrorInvalidValue);
  *address = reinterpret_cast<void*>(start + offset);
  return cudaSuccess;
}

bool is_to_symbol(cudaMemcpyKind kind) {
  return kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice ||
         kind == cudaMemcpyDefault;
}

bool is_from_symbol(cudaMemcpyKind kind) {
  return kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice ||
         kind == cudaMemcpyDefault;
}

}  // namespace

SIMGPU_EXPORT cudaError_t cudaGetSymbolAddress(void** dev_ptr, const void* symbol) {
  if (dev_ptr == nullptr) return record(cudaErrorInvalidValue);
  return place(symbol, 0, 0, dev_ptr);
}

SIMGPU_EXPORT cudaError_t cudaGetSymbolSize(size_t* size, const void* symbol) {
  if (size == nullptr) return record(cudaErrorInvalidValue);
  return with_context([&](const DriverTable&) {
    CUdeviceptr start = 0;
    size_t bytes = 0;
    const cudaError_t error = Registry::instance().variable(symbol, &start, &bytes);
    if (error == cudaSuccess) *size = bytes;
    return error;
  });
}

SIMGPU_EXPORT cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* src, size_t count,
                                             size_t offset, cudaMemcpyKind kind) {
  if (!is_to_symbol(kind)) return record(cudaErrorInvalidMemcpyDirection);
  void* address = nullptr;
  const cudaError_t error = place(symbol, count, offset, &address);
  return error != cudaSuccess ? error : cudaMemcpy(address, src, count, kind);
}

SIMGPU_EXPORT cudaError_t cudaMemcpyToSymbolAsync(const void* symbol, const void* src, size_t count,
                                                  size_t offset, cudaMemcpyKind kind,
                                                  cudaStream_t stream) {
  if (!is_to_symbol(kind)) return record(cudaErrorInvalidMemcpyDirection);
  void* address = nullptr;
  const cudaError_t error = place(symbol, count, offset, &address);
  return error != cudaSuccess ? error : cudaMemcpyAsync(address, src, count, kind, stream);
}

SIMGPU_EXPORT cudaError_t cudaMemcpyFromSymbol(void* dst, const void* symbol, size_t count,
                                               size_t offset, cudaMemcpyKind kind) {
  if (!is_from_symbol(kind)) return record(cudaErrorInvalidMemcpyDirection);
  void* address = nullptr;
  const cudaError_t error = place(symbol, count, offset, &address);
  return error != cudaSuccess ? error : cudaMemcpy(dst, address, count, kind);
}

SIMGPU_EXPORT cudaError_t cudaMemcpyFromSymbolAsync(void* dst, const void* symbol, size_t count,
                                                    size_t offset, cudaMemcpyKind kind,
                                                    cudaStream_t stream) {
  if (!is_from_symbol(kind)) return record(cudaErrorInvalidMemcpyDirection);
  void* address = nullptr;
  const cudaError_t error = place(symbol, count, offset, &address);
  return error != cudaSuccess ? error : cudaMemcpyAsync(dst, address, count, kind, stream);
}

}  // namespace simgpu::cudart
