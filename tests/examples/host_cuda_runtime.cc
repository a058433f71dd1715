// The CUDA runtime functions that the examples call, on host memory and finished when they return.
// For the examples' own tests, which need neither a GPU nor simgpu. Events tell no time.
#include <cuda_runtime_api.h>

#include <cstdlib>
#include <cstring>

#define HOST_CUDA extern "C" __attribute__((visibility("default"))) cudaError_t CUDARTAPI

namespace {

/// Fresh device memory holds anything: 0xA5 makes a read of it visible.
cudaError_t allocate(void** address, std::size_t bytes) {
  *address = std::malloc(bytes);
  if (*address == nullptr) return cudaErrorMemoryAllocation;
  std::memset(*address, 0xA5, bytes);
  return cudaSuccess;
}

template <typename Handle>
cudaError_t create(Handle* handle) {
  *handle = reinterpret_cast<Handle>(std::malloc(1));
  return cudaSuccess;
}

cudaError_t release(void* address) {
  std::free(address);
  return cudaSuccess;
}

}  // namespace

HOST_CUDA cudaMalloc(void** address, size_t bytes) { return allocate(address, bytes); }
HOST_CUDA cudaMallocAsync(void** address, size_t bytes, cudaStream_t /*stream*/) {
  return allocate(address, bytes);
}
HOST_CUDA cudaMallocHost(void** address, size_t bytes) { return allocate(address, bytes); }
HOST_CUDA cudaFree(void* address) { return release(address); }
HOST_CUDA cudaFreeAsync(void* address, cudaStream_t /*stream*/) { return release(address); }
HOST_CUDA cudaFreeHost(void* address) { return release(address); }

HOST_CUDA cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind /*kind*/) {
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}
HOST_CUDA cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind /*kind*/,
                          cudaStream_t /*stream*/) {
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}
HOST_CUDA cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t /*stream*/) {
  std::memset(to, value, bytes);
  return cudaSuccess;
}

HOST_CUDA cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned /*flags*/) {
  return create(stream);
}
HOST_CUDA cudaStreamDestroy(cudaStream_t stream) { return release(stream); }
HOST_CUDA cudaStreamSynchronize(cudaStream_t /*stream*/) { return cudaSuccess; }
HOST_CUDA cudaStreamWaitEvent(cudaStream_t /*stream*/, cudaEvent_t /*event*/, unsigned /*flags*/) {
  return cudaSuccess;
}
HOST_CUDA cudaDeviceSynchronize() { return cudaSuccess; }

HOST_CUDA cudaEventCreate(cudaEvent_t* event) { return create(event); }
HOST_CUDA cudaEventSynchronize(cudaEvent_t /*event*/) { return cudaSuccess; }
HOST_CUDA cudaEventDestroy(cudaEvent_t event) { return release(event); }
HOST_CUDA cudaEventRecord(cudaEvent_t /*event*/, cudaStream_t /*stream*/) { return cudaSuccess; }
HOST_CUDA cudaEventElapsedTime(float* milliseconds, cudaEvent_t /*begin*/, cudaEvent_t /*end*/) {
  *milliseconds = 0;
  return cudaSuccess;
}

HOST_CUDA cudaGetLastError() { return cudaSuccess; }
extern "C" __attribute__((visibility("default"))) const char* CUDARTAPI
cudaGetErrorString(cudaError_t status) {
  return status == cudaSuccess ? "no error" : "error";
}
extern "C" __attribute__((visibility("default"))) const char* CUDARTAPI
cudaGetErrorName(cudaError_t status) {
  return status == cudaSuccess ? "cudaSuccess" : "cudaError";
}
