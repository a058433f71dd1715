#include "examples/cuda_objects.h"

#include <stdexcept>
#include <string>

namespace examples {

void check(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  throw std::runtime_error(std::string(call) + " failed: " + cudaGetErrorString(status) + " (" +
                           cudaGetErrorName(status) + ")");
}

DeviceBuffer::DeviceBuffer(std::size_t bytes, AllocationKind kind, cudaStream_t stream)
    : kind_(kind), stream_(stream) {
  if (kind == AllocationKind::kDirect) {
    check(cudaMalloc(&address_, bytes), "cudaMalloc");
  } else {
    check(cudaMallocAsync(&address_, bytes, stream), "cudaMallocAsync");
  }
}

DeviceBuffer::DeviceBuffer(DeviceBuffer&& other) noexcept
    : address_(std::exchange(other.address_, nullptr)),
      kind_(other.kind_),
      stream_(other.stream_) {}

DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&& other) noexcept {
  std::swap(address_, other.address_);
  std::swap(kind_, other.kind_);
  std::swap(stream_, other.stream_);
  return *this;
}

DeviceBuffer::~DeviceBuffer() {
  if (address_ == nullptr) return;
  if (kind_ == AllocationKind::kDirect) {
    static_cast<void>(cudaFree(address_));
  } else {
    static_cast<void>(cudaFreeAsync(address_, stream_));
  }
}

PinnedBuffer::PinnedBuffer(std::size_t bytes) {
  check(cudaMallocHost(&address_, bytes), "cudaMallocHost");
}

PinnedBuffer& PinnedBuffer::operator=(PinnedBuffer&& other) noexcept {
  std::swap(address_, other.address_);
  return *this;
}

PinnedBuffer::~PinnedBuffer() {
  if (address_ != nullptr) static_cast<void>(cudaFreeHost(address_));
}

Stream::Stream() {
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
}

Stream::~Stream() {
  if (stream_ != nullptr) static_cast<void>(cudaStreamDestroy(stream_));
}

void Stream::synchronize() const { check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize"); }

Event::Event() { check(cudaEventCreate(&event_), "cudaEventCreate"); }

Event::~Event() {
  if (event_ != nullptr) static_cast<void>(cudaEventDestroy(event_));
}

void Event::record(const Stream& stream) const {
  check(cudaEventRecord(event_, stream.get()), "cudaEventRecord");
}

void Event::block(const Stream& stream) const {
  check(cudaStreamWaitEvent(stream.get(), event_, 0), "cudaStreamWaitEvent");
}

float Event::milliseconds_since(const Event& earlier) const {
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, earlier.event_, event_), "cudaEventElapsedTime");
  return milliseconds;
}

}  // namespace examples
