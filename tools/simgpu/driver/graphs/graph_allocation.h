// Memory that nodes of graphs allocate: an address for good, memory while it is allocated.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>

#include "tools/simgpu/driver/context/context.h"
#include "tools/simgpu/driver/device/device.h"
#include "tools/simgpu/driver/entry/api.h"
#include "tools/simgpu/driver/memory/physical_memory.h"
#include "tools/simgpu/driver/streams/stream.h"

namespace simgpu {

/// What one allocation node allocates.
///
/// Its address is reserved for as long as the object lives. Physical memory is taken by the first
/// back() and kept until trim() or the end; it is mapped, in the order of streams, from the
/// operation of allocate() to that of free(). So an access outside of these faults. Thread-safe;
/// waits on no device work.
class GraphAllocation {
 public:
  /// @return CUDA_ERROR_OUT_OF_MEMORY without address space; CUDA_ERROR_INVALID_VALUE for size 0.
  static CUresult create(Device& device, std::uint64_t size,
                         std::shared_ptr<GraphAllocation>* allocation);
  ~GraphAllocation();
  GraphAllocation(const GraphAllocation&) = delete;
  GraphAllocation& operator=(const GraphAllocation&) = delete;

  [[nodiscard]] std::uint64_t address() const { return address_; }
  /// As asked for.
  [[nodiscard]] std::uint64_t size() const { return size_; }
  /// Of physical memory, when it has any.
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  [[nodiscard]] Device& device() const { return device_; }

  /// Makes sure that it has physical memory. @return CUDA_ERROR_OUT_OF_MEMORY.
  CUresult back();
  /// Gives the physical memory back, if it is not allocated.
  void trim();
  /// Whether, in the order of the host's calls, it is allocated.
  [[nodiscard]] bool live() const;

  /// @name In the order of the host's calls
  /// @{
  /// The operation that allocates it. REQUIRES: back() succeeded.
  static Operation allocate(const std::shared_ptr<GraphAllocation>& allocation);
  /// The operation that frees it. REQUIRES: live().
  static Operation free(const std::shared_ptr<GraphAllocation>& allocation);
  /// @}

  /// The allocation whose address is `address`, or null.
  static std::shared_ptr<GraphAllocation> find(std::uint64_t address);
  /// Whether [address, address + size) lies in one: it may be allocated by the time that work runs.
  static bool covers(std::uint64_t address, std::uint64_t size);
  /// Frees the one at `address` in the order of `stream` (cuMemFreeAsync), or at once if null: then
  /// all work has completed (cuMemFree).
  /// @return false if there is none; else `*result` is CUDA_SUCCESS, or CUDA_ERROR_INVALID_VALUE
  ///     if it is not allocated or is its graph's to free.
  static bool free_at(std::uint64_t address, const StreamPtr& stream, CUresult* result);

  /// cuDeviceGraphMemTrim().
  static void trim_all_of(const Device& device);
  static CUresult get_attribute(const Device& device, CUgraphMem_attribute attribute, void* value);
  static CUresult set_attribute(const Device& device, CUgraphMem_attribute attribute,
                                const void* value);

  /// Where it is freed by a node, if anywhere: in the graph that allocates it, or in another. Under
  /// the lock of graphs.
  enum class FreeNode { kNone, kOwnGraph, kOtherGraph };
  FreeNode free_node = FreeNode::kNone;

 private:
  GraphAllocation(Device& device, std::uint64_t size) : device_(device), size_(size) {}
  void map();
  void unmap();
  void set_live(bool live);
  /// REQUIRES: the mutex.
  void drop_memory();

  Device& device_;
  const std::uint64_t size_;
  std::uint64_t bytes_ = 0;
  std::uint64_t address_ = 0;
  mutable std::mutex mutex_;
  PhysicalPtr physical_;                     ///< null: it has none
  CUmemGenericAllocationHandle handle_ = 0;  ///< of `physical_`
  bool live_ = false;
  bool mapped_ = false;
};

using GraphAllocationPtr = std::shared_ptr<GraphAllocation>;

}  // namespace simgpu
