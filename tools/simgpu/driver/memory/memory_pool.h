// Memory pools: stream-ordered allocation.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "tools/simgpu/driver/device/device.h"
#include "tools/simgpu/driver/memory/address_space.h"
#include "tools/simgpu/driver/streams/stream.h"

namespace simgpu {

/// A pool of one device. Its blocks are allocations of the address space: in use, or free and
/// cached for reuse. Thread-safe; waits on the device only where it says so.
class MemoryPool {
 public:
  MemoryPool(Device& device, bool is_default)
      : device_(device), is_default_(is_default), small_(std::make_shared<SmallBlocks>(device)) {}

  /// Memory for `stream`, usable at once by the host as a pointer and, in the stream's order, by
  /// work. A free block is reused if its free was on `stream` or has completed, and, when the
  /// device is full, behind its free's completion. New or reused, it reads zero.
  CUresult allocate(const StreamPtr& stream, std::uint64_t size, std::uint64_t* address);
  /// Frees a live block of this pool in the order of `stream`.
  CUresult free(const StreamPtr& stream, std::uint64_t address);
  /// Frees a live block whose work has all completed (cuMemFree).
  CUresult free_now(std::uint64_t address);
  /// Gives free blocks whose free has completed back to the device, until no more than `keep` bytes
  /// are reserved.
  void trim(std::uint64_t keep);
  /// As trim(release threshold): at every synchronisation.
  void trim_to_threshold();
  /// Ends the pool: its free blocks go back to the device now, the others when they are freed.
  void abandon();

  CUresult get_attribute(CUmemPool_attribute attribute, void* value);
  CUresult set_attribute(CUmemPool_attribute attribute, const void* value);

  [[nodiscard]] Device& device() const { return device_; }
  [[nodiscard]] bool is_default() const { return is_default_; }

  CUmemoryPool handle = nullptr;  ///< set once, when it enters the table of pools

 private:
  struct FreeBlock {
    std::uint64_t address;
    std::uint64_t bytes;   ///< of physical memory
    const Stream* stream;  ///< that freed it; only compared
    CompletionPtr freed;   ///< null: complete
  };

  std::vector<FreeBlock>::iterator find_reusable(const Stream* stream, std::uint64_t size,
                                                 bool pending_too);
  CUresult reuse(std::vector<FreeBlock>::iterator block, const StreamPtr& stream,
                 std::uint64_t size, std::uint64_t* address);
  void add_used(std::uint64_t bytes);
  void trim_locked(std::uint64_t keep);

  Device& device_;
  const bool is_default_;
  const std::shared_ptr<SmallBlocks> small_;
  std::mutex mutex_;
  std::vector<FreeBlock> free_;  ///< in the order they were freed
  bool abandoned_ = false;
  bool follow_events_ = true;
  bool opportunistic_ = true;
  bool internal_dependencies_ = true;
  std::uint64_t threshold_ = 0;
  std::uint64_t reserved_ = 0;
  std::uint64_t reserved_high_ = 0;
  std::uint64_t used_ = 0;
  std::uint64_t used_high_ = 0;
};

}  // namespace simgpu
