// What memory pools would report had they served the allocations that we serve in their place.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <unordered_map>
#include <utility>

#include "interposer/cuda_api.h"
#include "policy/units.h"

namespace superpipe {

/// Managed stream-ordered allocations by pool. Thread-safe.
///
/// Handles come again, in another thread at once. So what is about to be destroyed or freed is
/// taken out before the driver is asked to, and put back if it refuses.
class PoolAccounts {
 public:
  struct Usage {
    std::uint64_t current = 0;  ///< bytes
    std::uint64_t high = 0;     ///< bytes, since the last reset
  };
  /// One pool. Its allocations may outlive it, and keep this.
  struct Pool {
    CUmemoryPool handle = nullptr;
    std::optional<int> device;  ///< nullopt: never seen made
    Usage usage;
  };
  /// Who an allocation belongs to.
  struct Owner {
    std::shared_ptr<Pool> pool;
    std::uint64_t size = 0;
  };

  /// `pool` lies on `device`; kElsewhere: it must get its memory from the driver, being shared with
  /// other processes or no device memory.
  static constexpr int kElsewhere = -1;
  void set_device(CUmemoryPool pool, int device) noexcept {
    const std::lock_guard lock(mutex_);
    try {
      of(pool)->device = device;
    } catch (const std::bad_alloc&) {
      excludes_all_ = true;
    }
  }
  /// Whether allocations from `pool` can be served on `device`. Pools that were never seen made are
  /// the devices' own.
  [[nodiscard]] bool can_serve(CUmemoryPool pool, int device) const noexcept {
    const std::lock_guard lock(mutex_);
    if (excludes_all_) return false;
    const auto found = pools_.find(pool);
    return found == pools_.end() || found->second->device.value_or(device) == device;
  }

  void on_allocate(CUmemoryPool pool, std::uint64_t address, std::uint64_t size) noexcept {
    const std::lock_guard lock(mutex_);
    try {
      add(address, {of(pool), size});
    } catch (const std::bad_alloc&) {
      // The attribute then reports too little, which is better than a failed allocation.
    }
  }
  /// The allocation at `address` is about to be freed. @return what put_back() takes if the free
  /// fails.
  std::optional<Owner> take(std::uint64_t address) noexcept {
    const std::lock_guard lock(mutex_);
    const auto found = owners_.find(address);
    if (found == owners_.end()) return std::nullopt;
    Owner owner = std::move(found->second);
    owner.pool->usage.current -= owner.size;
    owners_.erase(found);
    return owner;
  }
  void put_back(std::uint64_t address, const Owner& owner) noexcept {
    const std::lock_guard lock(mutex_);
    try {
      add(address, owner);
    } catch (const std::bad_alloc&) {
      // As in on_allocate().
    }
  }
  /// The pool that the allocation at `address` was asked from; null if it was not from a pool.
  [[nodiscard]] CUmemoryPool pool_of(std::uint64_t address) const noexcept {
    const std::lock_guard lock(mutex_);
    const auto owner = owners_.find(address);
    return owner == owners_.end() ? nullptr : owner->second.pool->handle;
  }
  [[nodiscard]] Usage usage(CUmemoryPool pool) const noexcept {
    const std::lock_guard lock(mutex_);
    const auto found = pools_.find(pool);
    return found == pools_.end() ? Usage{} : found->second->usage;
  }
  void reset_high(CUmemoryPool pool) noexcept {
    const std::lock_guard lock(mutex_);
    const auto found = pools_.find(pool);
    if (found != pools_.end()) found->second->usage.high = found->second->usage.current;
  }

  using Taken = std::unordered_map<CUmemoryPool, std::shared_ptr<Pool>>::node_type;
  /// `pool` is about to be destroyed. @return what put_back() takes if that fails.
  [[nodiscard]] Taken take_pool(CUmemoryPool pool) noexcept {
    const std::lock_guard lock(mutex_);
    return pools_.extract(pool);
  }
  void put_back(Taken taken) noexcept {
    const std::lock_guard lock(mutex_);
    try {
      if (taken) pools_.insert(std::move(taken));
    } catch (const std::bad_alloc&) {
      excludes_all_ = true;
    }
  }
  /// The context is gone, and with it every allocation.
  void forget_allocations() noexcept {
    const std::lock_guard lock(mutex_);
    owners_.clear();
    for (const auto& [handle, pool] : pools_) pool->usage = {};
  }

 private:
  const std::shared_ptr<Pool>& of(CUmemoryPool handle) {
    const auto found = pools_.find(handle);
    if (found != pools_.end()) return found->second;
    return pools_.emplace(handle, std::make_shared<Pool>(Pool{handle, {}, {}})).first->second;
  }
  void add(std::uint64_t address, const Owner& owner) {
    owners_[address] = owner;
    Usage& usage = owner.pool->usage;
    usage.current += owner.size;
    usage.high = std::max(usage.high, usage.current);
  }

  mutable std::mutex mutex_;
  std::unordered_map<std::uint64_t, Owner> owners_;
  std::unordered_map<CUmemoryPool, std::shared_ptr<Pool>> pools_;
  bool excludes_all_ = false;
};

}  // namespace superpipe
