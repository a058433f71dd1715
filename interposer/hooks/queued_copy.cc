#include "interposer/hooks/queued_copy.h"

#include <cstring>
#include <new>
#include <utility>

#include "interposer/driver/streams.h"
#include "interposer/driver/table.h"

namespace superpipe {
namespace {

/// Owned by the stream's host function.
struct QueuedCopy {
  void* to;
  const void* from;
  std::size_t size;
  Snapshot snapshot;
  HostFunctionPermit permit;
};

void run_queued_copy(void* user_data) {
  const std::unique_ptr<QueuedCopy> copy(static_cast<QueuedCopy*>(user_data));
  std::memcpy(copy->to, copy->from, copy->size);
}

}  // namespace

std::atomic<std::size_t> Snapshot::held_{0};

Snapshot::Snapshot(Snapshot&& other) noexcept
    : bytes_(std::move(other.bytes_)), size_(std::exchange(other.size_, 0)) {}

Snapshot& Snapshot::operator=(Snapshot&& other) noexcept {
  if (this == &other) return *this;
  release();
  bytes_ = std::move(other.bytes_);
  size_ = std::exchange(other.size_, 0);
  return *this;
}

Snapshot Snapshot::take(const void* from, std::size_t size) noexcept {
  Snapshot snapshot;
  std::size_t held = held_.load(std::memory_order_relaxed);
  do {
    if (size > kMostBytes - held) return snapshot;
  } while (!held_.compare_exchange_weak(held, held + size, std::memory_order_relaxed));
  snapshot.size_ = size;
  snapshot.bytes_.reset(new (std::nothrow) char[size]);
  if (snapshot.empty()) {
    snapshot.release();
  } else {
    std::memcpy(snapshot.bytes_.get(), from, size);
  }
  return snapshot;
}

void Snapshot::release() noexcept {
  bytes_.reset();
  held_.fetch_sub(std::exchange(size_, 0), std::memory_order_relaxed);
}

CUresult queue_copy(StreamHandle stream, void* to, const void* from, std::size_t size,
                    Snapshot snapshot, HostFunctionPermit permit) noexcept {
  std::unique_ptr<QueuedCopy> copy(
      new (std::nothrow) QueuedCopy{to, from, size, std::move(snapshot), std::move(permit)});
  if (copy == nullptr) return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
  const CUresult result =
      driver().cuLaunchHostFunc(driver_stream(stream), run_queued_copy, copy.get());
  if (result == CUDA_SUCCESS) (void)copy.release();
  return result;
}

}  // namespace superpipe
