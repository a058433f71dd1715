// All memory pools of the process, and which one each device allocates from.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "tools/simgpu/driver/device/device.h"
#include "tools/simgpu/driver/entry/handle_table.h"
#include "tools/simgpu/driver/memory/memory_pool.h"

namespace simgpu {

using PoolPtr = std::shared_ptr<MemoryPool>;

/// Every pool that is live, or was destroyed while something of it was in use. Never destroyed.
/// Thread-safe; waits on nothing.
class PoolTable {
 public:
  static PoolTable& instance();

  /// A new pool of `device`, with a handle.
  PoolPtr create(Device& device);
  /// Invalidates the handle of `pool`, which its device no longer allocates from. The handle names
  /// another pool later, but not before all of this one is free.
  void destroy(const PoolPtr& pool);
  /// The live pool that `handle` names, or null.
  PoolPtr find(CUmemoryPool handle) const { return live_.find(handle); }
  /// The device's own pool, made at its first use.
  PoolPtr default_of(Device& device);
  /// The pool that cuMemAllocAsync takes from on `device`: the default, unless another was chosen.
  PoolPtr current_of(Device& device);
  void choose(Device& device, PoolPtr pool);
  /// All of `device`, destroyed ones of which something is in use included.
  std::vector<PoolPtr> all_of(const Device& device);
  /// Forgets a destroyed pool of which nothing is in use any more.
  void forget(const PoolPtr& pool);

 private:
  PoolPtr make_locked(Device& device, bool is_default);

  HandleTable<CUmemoryPool, MemoryPool> live_;
  std::mutex mutex_;
  std::array<std::vector<PoolPtr>, kMaxDevices> of_device_;  ///< the default first
  std::array<PoolPtr, kMaxDevices> current_;                 ///< null: the default
};

/// Frees what is left of the stream-ordered allocations made in `context`, whose work has all
/// completed, and gives back what its device's pools keep.
void release_pool_memory_of(const Context& context);

/// The host has waited for all operations on `device` for which `waited` says so: its pools may use
/// again what those freed, and give back what is beyond their release thresholds.
void note_synchronisation(const Device& device, const std::function<bool(StreamPoint)>& waited);

/// Gives back all that the pools of `device` keep for reuse and that nothing uses any more.
void empty_pools_of(const Device& device);

/// The live pool that `handle` names, or null.
std::shared_ptr<MemoryPool> find_pool(CUmemoryPool handle);

}  // namespace simgpu
