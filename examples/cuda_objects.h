// Owners of the few CUDA runtime objects that the examples use, and error checking.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <utility>

namespace examples {

/// Throws std::runtime_error where `status` is an error; the message names `call` and says in words
/// and by its name what CUDA answered.
void check(cudaError_t status, const char* call);

/// How a DeviceBuffer gets its memory.
enum class AllocationKind {
  kDirect,         // cudaMalloc, cudaFree
  kStreamOrdered,  // cudaMallocAsync, cudaFreeAsync
};

/// Owns one allocation of device memory.
///
/// Movable, empty afterwards. Must be destroyed before the process ends its CUDA context. The
/// destructor frees without reporting errors; a direct free waits for the device.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;

  /// Allocates `bytes` (> 0). A stream-ordered buffer is allocated and later freed on `stream`,
  /// which must outlive it. Throws std::runtime_error where CUDA refuses.
  explicit DeviceBuffer(std::size_t bytes, AllocationKind kind = AllocationKind::kDirect,
                        cudaStream_t stream = nullptr);
  DeviceBuffer(DeviceBuffer&& other) noexcept;
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept;
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  ~DeviceBuffer();

  /// The device address as a pointer to T; null where empty. Not to be dereferenced on the host.
  template <typename T>
  [[nodiscard]] T* as() const {
    return static_cast<T*>(address_);
  }

 private:
  void* address_ = nullptr;
  AllocationKind kind_ = AllocationKind::kDirect;
  cudaStream_t stream_ = nullptr;
};

/// Owns page-locked host memory.
class PinnedBuffer {
 public:
  PinnedBuffer() = default;

  /// Allocates `bytes` (> 0). Throws std::runtime_error where CUDA refuses.
  explicit PinnedBuffer(std::size_t bytes);
  PinnedBuffer(PinnedBuffer&& other) noexcept : address_(std::exchange(other.address_, nullptr)) {}
  PinnedBuffer& operator=(PinnedBuffer&& other) noexcept;
  PinnedBuffer(const PinnedBuffer&) = delete;
  PinnedBuffer& operator=(const PinnedBuffer&) = delete;
  ~PinnedBuffer();

  /// The memory as a pointer to T; null where empty.
  template <typename T>
  [[nodiscard]] T* as() const {
    return static_cast<T*>(address_);
  }

 private:
  void* address_ = nullptr;
};

/// Owns a stream that does not synchronise with the legacy default stream.
class Stream {
 public:
  /// Throws std::runtime_error where CUDA refuses, for instance because there is no device.
  Stream();
  Stream(Stream&& other) noexcept : stream_(std::exchange(other.stream_, nullptr)) {}
  Stream& operator=(Stream&&) = delete;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream();

  /// The stream; owned by this object.
  [[nodiscard]] cudaStream_t get() const { return stream_; }

  /// Waits for all work of the stream. Throws std::runtime_error with the first error of that work.
  void synchronize() const;

 private:
  cudaStream_t stream_ = nullptr;
};

/// Owns an event that keeps its time.
class Event {
 public:
  /// Throws std::runtime_error where CUDA refuses.
  Event();
  Event(Event&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  Event& operator=(Event&&) = delete;
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event();

  /// The event; owned by this object.
  [[nodiscard]] cudaEvent_t get() const { return event_; }

  /// Marks the present end of `stream`'s work. Throws std::runtime_error where CUDA refuses.
  void record(const Stream& stream) const;

  /// Makes later work of `stream` wait for this event; does not wait itself. Throws
  /// std::runtime_error where CUDA refuses.
  void block(const Stream& stream) const;

  /// Milliseconds of device time from `earlier` to this event. REQUIRES: both were recorded and
  /// have completed. Throws std::runtime_error otherwise.
  [[nodiscard]] float milliseconds_since(const Event& earlier) const;

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace examples
