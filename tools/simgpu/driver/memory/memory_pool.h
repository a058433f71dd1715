// Memory pools: stream-ordered allocation.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "tools/simgpu/driver/device/device.h"
#include "tools/simgpu/driver/memory/address_space.h"
#include "tools/simgpu/driver/memory/pool_blocks.h"
#include "tools/simgpu/driver/streams/stream.h"

namespace simgpu {

/// A pool of one device. It takes chunks of physical memory, and carves its allocations out of
/// them. Thread-safe; waits on the device only where it says so.
class MemoryPool : public std::enable_shared_from_this<MemoryPool> {
 public:
  MemoryPool(Device& device, bool is_default) : device_(device), is_default_(is_default) {}

  /// Memory for `stream`, usable at once by the host as a pointer and, in the stream's order, by
  /// work. Bytes that were freed are used again if their free was on `stream` or the host has
  /// waited for it; else as the pool's policies allow: if `stream` comes after the free by events
  /// or by the rules of the legacy stream (REUSE_FOLLOW_EVENT_DEPENDENCIES), if the free has
  /// completed (REUSE_ALLOW_OPPORTUNISTIC) and, when the device is full, behind the free's
  /// completion, for which it waits where no bytes fit (REUSE_ALLOW_INTERNAL_DEPENDENCIES).
  /// @return CUDA_ERROR_OUT_OF_MEMORY; `*address` is then untouched.
  CUresult allocate(const StreamPtr& stream, std::uint64_t size, std::uint64_t* address);
  /// Frees an allocation of this pool in the order of `stream`.
  /// @return CUDA_ERROR_INVALID_VALUE if there is none at `address`.
  CUresult free(const StreamPtr& stream, std::uint64_t address);
  /// Frees an allocation of this pool at once (cuMemFree): the caller has waited for its work.
  CUresult free_now(std::uint64_t address);
  /// Gives chunks of which nothing is in use back to the device, as long as `keep` bytes stay
  /// reserved.
  void trim(std::uint64_t keep);
  /// The host has waited for all operations for which `waited` says so: what they freed is free for
  /// everybody, and chunks beyond the release threshold go back to the device.
  void note_synchronisation(const std::function<bool(StreamPoint)>& waited);
  /// Ends the pool: its chunks go back to the device as soon as nothing of them is in use.
  void abandon();
  /// Whether it was ended and all of its chunks have gone back.
  [[nodiscard]] bool gone();

  CUresult get_attribute(CUmemPool_attribute attribute, void* value);
  CUresult set_attribute(CUmemPool_attribute attribute, const void* value);

  /// Whether kernels of the device with this ordinal may access its memory (cuMemPoolSetAccess).
  [[nodiscard]] bool is_open_to(int device) const {
    return device == device_.ordinal() || peers_[static_cast<std::size_t>(device)];
  }
  void open_to(int device, bool is_open) { peers_[static_cast<std::size_t>(device)] = is_open; }

  [[nodiscard]] Device& device() const { return device_; }
  [[nodiscard]] bool is_default() const { return is_default_; }

  CUmemoryPool handle = nullptr;  ///< set once, when it enters the table of pools

 private:
  /// A quantity, and the most that it has been since the program asked for that to be forgotten.
  struct Watermark {
    std::uint64_t current = 0;
    std::uint64_t high = 0;

    void add(std::uint64_t bytes) {
      current += bytes;
      if (current > high) high = current;
    }
  };

  /// Takes `size` bytes as allocate() says. `lock`, which holds the mutex, is released while it
  /// waits.
  std::optional<PoolBlocks::Taken> take(std::unique_lock<std::mutex>& lock, const StreamPtr& stream,
                                        std::uint64_t size);
  /// Without new chunks.
  std::optional<PoolBlocks::Taken> take_freed(const StreamPtr& stream, std::uint64_t size);
  /// Reserves a chunk that holds `size` bytes. @return false if the device is full.
  bool grow(std::uint64_t size);
  bool add_chunk(std::uint64_t size);
  void remove_chunk(const PoolBlocks::Chunk& chunk);
  /// As trim().
  void trim_locked(std::uint64_t keep);

  Device& device_;
  const bool is_default_;
  std::array<std::atomic<bool>, kMaxDevices> peers_{};
  std::mutex mutex_;
  PoolBlocks blocks_;
  std::map<std::uint64_t, PhysicalPtr> chunks_;  ///< by address
  bool abandoned_ = false;
  bool follow_events_ = true;
  bool opportunistic_ = true;
  bool internal_dependencies_ = true;
  std::uint64_t threshold_ = 0;
  Watermark reserved_;
  Watermark used_;
};

}  // namespace simgpu
