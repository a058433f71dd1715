// What memory pools would report had they served the allocations that we serve in their place.
#pragma once

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <new>
#include <optional>
#include <unordered_map>

#include "interposer/cuda_api.h"
#include "policy/units.h"

namespace superpipe {

/// Managed stream-ordered allocations by pool. Thread-safe.
class PoolAccounts {
 public:
  struct Usage {
    std::uint64_t current = 0;  ///< bytes
    std::uint64_t high = 0;     ///< bytes, since the last reset
  };

  /// `pool` lies on `device`; kElsewhere: it must get its memory from the driver, being shared with
  /// other processes or no device memory.
  static constexpr int kElsewhere = -1;
  void set_device(CUmemoryPool pool, int device) noexcept {
    const std::lock_guard lock(mutex_);
    try {
      devices_[pool] = device;
    } catch (const std::bad_alloc&) {
      excludes_all_ = true;
    }
  }
  /// Whether allocations from `pool` can be served on `device`. Pools that were never seen made are
  /// the devices' own.
  [[nodiscard]] bool can_serve(CUmemoryPool pool, int device) const noexcept {
    const std::lock_guard lock(mutex_);
    if (excludes_all_) return false;
    const auto found = devices_.find(pool);
    return found == devices_.end() || found->second == device;
  }

  void on_allocate(CUmemoryPool pool, std::uint64_t address, std::uint64_t size) noexcept {
    const std::lock_guard lock(mutex_);
    try {
      owners_[address] = {pool, size};
      Usage& usage = usages_[pool];
      usage.current += size;
      usage.high = std::max(usage.high, usage.current);
    } catch (const std::bad_alloc&) {
      // The attribute then reports too little, which is better than a failed allocation.
      owners_.erase(address);
    }
  }
  /// Who an allocation belongs to.
  struct Owner {
    CUmemoryPool pool = nullptr;
    std::uint64_t size = 0;
  };
  /// The allocation at `address` is about to be freed: forgotten before that, because the address
  /// may come again in another thread at once. @return what put_back() takes if the free fails.
  std::optional<Owner> take(std::uint64_t address) noexcept {
    const std::lock_guard lock(mutex_);
    const auto found = owners_.find(address);
    if (found == owners_.end()) return std::nullopt;
    const Owner owner = found->second;
    usages_[owner.pool].current -= owner.size;
    owners_.erase(found);
    return owner;
  }
  void put_back(std::uint64_t address, const Owner& owner) noexcept {
    on_allocate(owner.pool, address, owner.size);
  }
  /// The pool that the allocation at `address` was asked from; null if it was not from a pool.
  [[nodiscard]] CUmemoryPool pool_of(std::uint64_t address) const noexcept {
    const std::lock_guard lock(mutex_);
    const auto owner = owners_.find(address);
    return owner == owners_.end() ? nullptr : owner->second.pool;
  }
  [[nodiscard]] Usage usage(CUmemoryPool pool) const noexcept {
    const std::lock_guard lock(mutex_);
    const auto found = usages_.find(pool);
    return found == usages_.end() ? Usage{} : found->second;
  }
  void reset_high(CUmemoryPool pool) noexcept {
    const std::lock_guard lock(mutex_);
    const auto found = usages_.find(pool);
    if (found != usages_.end()) found->second.high = found->second.current;
  }
  /// The pool is gone; another may come at its handle.
  void forget(CUmemoryPool pool) noexcept {
    const std::lock_guard lock(mutex_);
    devices_.erase(pool);
    usages_.erase(pool);
  }
  /// The context is gone, and with it every allocation.
  void forget_allocations() noexcept {
    const std::lock_guard lock(mutex_);
    owners_.clear();
    usages_.clear();
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_map<std::uint64_t, Owner> owners_;
  std::unordered_map<CUmemoryPool, Usage> usages_;
  std::unordered_map<CUmemoryPool, int> devices_;
  bool excludes_all_ = false;
};

}  // namespace superpipe
