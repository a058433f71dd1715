// The program's memory pools, and what they would report had they served the allocations that we
// serve in their place.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <unordered_map>
#include <utility>

#include "interposer/contexts/peer_contexts.h"
#include "interposer/driver/cuda_api.h"

namespace superpipe {

/// One memory pool. The driver may give the handle of a destroyed pool to the next one; each has an
/// object of its own, which lives as long as an allocation of it does. Thread-safe.
class MemoryPool {
 public:
  struct Usage {
    std::uint64_t current = 0;  ///< bytes
    std::uint64_t high = 0;     ///< bytes, since the last reset
  };

  /// In place of a device: the pool is shared with other processes, or has no device memory. Only
  /// the driver can serve it.
  static constexpr int kElsewhere = -1;

  /// `device`: where the pool lies; nullopt if we have not seen it made, as a device's default
  /// pool.
  MemoryPool(CUmemoryPool handle, std::optional<int> device) : handle_(handle), device_(device) {}
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  /// After the destruction it may be another pool's.
  [[nodiscard]] CUmemoryPool handle() const { return handle_; }
  /// Whether we can serve its allocations on `device`, in the driver's place.
  [[nodiscard]] bool can_serve(int device) const {
    return device_.value_or(device) == device && !is_destroyed_.load();
  }
  /// Whether it lies on `device`, whose default pool is `default_pool`.
  [[nodiscard]] bool lies_on(int device, CUmemoryPool default_pool) const {
    return !is_destroyed_.load() && (device_ ? *device_ == device : handle_ == default_pool);
  }
  /// @name Other devices that may access its memory (cuMemPoolSetAccess)
  /// @{
  void open_to(DeviceMask devices) { peers_.fetch_or(devices); }
  void close_to(DeviceMask devices) { peers_.fetch_and(~devices); }
  [[nodiscard]] DeviceMask peers() const { return peers_.load(); }
  /// @}
  /// The driver has destroyed it.
  void on_destroyed() { is_destroyed_.store(true); }

  /// What its allocations take that we serve.
  [[nodiscard]] Usage usage() const {
    const std::lock_guard lock(usage_mutex_);
    return usage_;
  }
  void add(std::uint64_t size) {
    const std::lock_guard lock(usage_mutex_);
    usage_.current += size;
    usage_.high = std::max(usage_.high, usage_.current);
  }
  void subtract(std::uint64_t size) {
    const std::lock_guard lock(usage_mutex_);
    usage_.current -= std::min(usage_.current, size);
  }
  void reset_high() {
    const std::lock_guard lock(usage_mutex_);
    usage_.high = usage_.current;
  }
  /// All its allocations are gone with their context.
  void reset_usage() {
    const std::lock_guard lock(usage_mutex_);
    usage_ = {};
  }

 private:
  const CUmemoryPool handle_;
  const std::optional<int> device_;
  std::atomic<bool> is_destroyed_{false};
  std::atomic<DeviceMask> peers_{0};
  mutable std::mutex usage_mutex_;
  Usage usage_;
};
using MemoryPoolPtr = std::shared_ptr<MemoryPool>;

/// The pools by their handles, and the allocations of them that we serve. Thread-safe.
class MemoryPools {
 public:
  /// The driver has made, or imported, a pool that lies on `device` (or MemoryPool::kElsewhere).
  void on_created(CUmemoryPool handle, int device) noexcept {
    const std::lock_guard lock(mutex_);
    try {
      pools_.insert_or_assign(handle, std::make_shared<MemoryPool>(handle, device));
    } catch (const std::bad_alloc&) {
      // From now on a pool that is not known may lie anywhere.
      pools_.erase(handle);
      unknown_ = MemoryPool::kElsewhere;
    }
  }
  /// The pool at `handle`; a destroyed one until the driver makes another there. Null if `handle`
  /// is null, or if host memory is out.
  [[nodiscard]] MemoryPoolPtr at(CUmemoryPool handle) noexcept {
    if (handle == nullptr) return nullptr;
    const std::lock_guard lock(mutex_);
    try {
      const auto found = pools_.find(handle);
      if (found != pools_.end()) return found->second;
      return pools_.emplace(handle, std::make_shared<MemoryPool>(handle, unknown_)).first->second;
    } catch (const std::bad_alloc&) {
      return nullptr;
    }
  }

  /// Whether another device may access memory of any pool.
  [[nodiscard]] bool has_peers() const noexcept {
    const std::lock_guard lock(mutex_);
    return std::any_of(pools_.begin(), pools_.end(),
                       [](const auto& entry) { return entry.second->peers() != 0; });
  }
  /// The devices that may access memory of any pool of `device`, whose default pool is
  /// `default_pool`.
  [[nodiscard]] DeviceMask peers_of(int device, CUmemoryPool default_pool) const noexcept {
    const std::lock_guard lock(mutex_);
    DeviceMask peers = 0;
    for (const auto& [handle, pool] : pools_) {
      if (pool->lies_on(device, default_pool)) peers |= pool->peers();
    }
    return peers;
  }

  /// One allocation that we serve.
  struct Allocation {
    MemoryPoolPtr pool;
    std::uint64_t size = 0;
  };
  void on_allocate(std::uint64_t address, const Allocation& allocation) noexcept {
    const std::lock_guard lock(mutex_);
    try {
      allocations_.insert_or_assign(address, allocation);
      allocation.pool->add(allocation.size);
    } catch (const std::bad_alloc&) {
      // Its pool then reports too little, which is better than a failed allocation.
    }
  }
  /// The allocation at `address` is about to be freed: forgotten before that, because the address
  /// may come again in another thread at once. @return what on_allocate() takes if the free fails.
  std::optional<Allocation> take(std::uint64_t address) noexcept {
    const std::lock_guard lock(mutex_);
    const auto found = allocations_.find(address);
    if (found == allocations_.end()) return std::nullopt;
    Allocation allocation = std::move(found->second);
    allocations_.erase(found);
    allocation.pool->subtract(allocation.size);
    return allocation;
  }
  /// The pool that the allocation at `address` was asked from; null if it was not from a pool.
  [[nodiscard]] CUmemoryPool pool_of(std::uint64_t address) const noexcept {
    const std::lock_guard lock(mutex_);
    const auto found = allocations_.find(address);
    return found == allocations_.end() ? nullptr : found->second.pool->handle();
  }
  /// The context is gone, and with it every allocation.
  void forget_allocations() noexcept {
    const std::lock_guard lock(mutex_);
    allocations_.clear();
    for (const auto& [handle, pool] : pools_) pool->reset_usage();
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_map<CUmemoryPool, MemoryPoolPtr> pools_;
  std::unordered_map<std::uint64_t, Allocation> allocations_;
  std::optional<int> unknown_;  ///< the device of pools that were not seen made
};

/// The pools of this process; they outlive a managed context, because programs make pools before
/// it. Never destroyed: hooks may run in other libraries' destructors.
[[nodiscard]] inline MemoryPools& memory_pools() noexcept {
  static auto* const pools = new MemoryPools;
  return *pools;
}

}  // namespace superpipe
