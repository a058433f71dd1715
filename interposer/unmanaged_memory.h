// Device memory that is left to the driver but counts against the budget.
#pragma once

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <new>
#include <optional>
#include <unordered_map>

#include "interposer/cuda_api.h"
#include "policy/units.h"
#include "residency/residency_manager.h"

namespace superpipe {

/// What a call may do to the code on the device.
enum class CodeChange { kLoad, kUnload };

/// The sizes of live pass-through allocations, by address or handle, and what they take together.
///
/// Counted as drivers give out device memory: in blocks of 2 MiB, which allocations of up to 1 MiB
/// share and larger ones do not. How full the shared blocks are is not known from outside; they are
/// taken to be packed. A memory pool has blocks apart, keeps them for later (frameworks tell it
/// to), and says how much it holds only after it has grown: because its blocks need not be packed,
/// any allocation may make it grow. So headroom for one such growth is kept free as long as there
/// are pools, or for as many as there are calls under way. Thread-safe. Frees do not say how much
/// they free: that is what this is for.
class UnmanagedMemory {
 public:
  /// One pass-through allocation.
  struct Allocation {
    Bytes size;
    CUmemoryPool pool = nullptr;  ///< null: not from a pool
  };

  static constexpr Bytes kBlock = 2_MiB;
  static constexpr Bytes kLargestShared = 1_MiB;
  static constexpr Bytes kAlignment{512};
  static constexpr Bytes kMostPlausibleCode = 1_GiB;

  /// Counts an allocation that the driver is about to be asked for; settle() has to follow if it is
  /// from a pool. @return what it adds, often nothing.
  UnmanagedChange take(const Allocation& allocation) noexcept {
    return change([&] {
      if (allocation.pool != nullptr) ++calls_under_way_;
      count(use_to_grow(allocation.pool), allocation.size) += rounded(allocation.size);
    });
  }

  /// The driver is not asked after all. @return what comes free. REQUIRES: take() of the like.
  UnmanagedChange refuse(const Allocation& allocation) noexcept {
    return change([&] {
      if (allocation.pool != nullptr) --calls_under_way_;
      uncount(allocation);
    });
  }

  /// The allocation failed or has been freed. @return what comes free. REQUIRES: take() of the
  /// like, and settle() if it is from a pool.
  UnmanagedChange give_back(const Allocation& allocation) noexcept {
    return change([&] { uncount(allocation); });
  }

  /// The driver has answered, and says that `pool` holds `reserved` bytes by now.
  UnmanagedChange settle(CUmemoryPool pool, Bytes reserved) noexcept {
    return change([&] {
      --calls_under_way_;
      if (reserved == Bytes{}) return;
      PoolUse& use = use_to_grow(pool);
      if (reserved <= use.reserved) return;
      largest_growth_ =
          std::max(largest_growth_, round_up(reserved, kBlock) - round_up(use.reserved, kBlock));
      use.reserved = reserved;
    });
  }

  /// Code may be about to be loaded or unloaded. end_code() has to follow.
  UnmanagedChange begin_code(CodeChange code) noexcept {
    return change([&] {
      if (code == CodeChange::kLoad) ++loads_under_way_;
    });
  }

  /// That has been done. The device held `before` that is not counted, now it holds `after`; but
  /// loading never frees memory, unloading never takes any, and what is too much is another's.
  UnmanagedChange end_code(CodeChange code, Bytes before, Bytes after) noexcept {
    return change([&] {
      if (code == CodeChange::kLoad) {
        --loads_under_way_;
        const Bytes more = round_up(after - std::min(after, before), kBlock);
        if (more <= kMostPlausibleCode) code_ += more;
      } else {
        code_ -= std::min(code_, round_up(before - std::min(before, after), kBlock));
      }
    });
  }

  /// `pool` is being destroyed: what it holds goes with its last allocation.
  UnmanagedChange forget_pool(CUmemoryPool pool) noexcept {
    return change([&] {
      const auto found = pools_.find(pool);
      if (found == pools_.end()) return;
      found->second.reserved = Bytes{};
      if (found->second.taken() == Bytes{}) pools_.erase(found);
    });
  }

  /// Remembers under what the allocation that take() counted will be freed. @return false if memory
  /// is out; it then stays counted for good.
  bool remember(std::uint64_t key, const Allocation& allocation) noexcept {
    const std::lock_guard lock(mutex_);
    try {
      allocations_[key] = allocation;
    } catch (const std::bad_alloc&) {
      return false;
    }
    return true;
  }

  /// What is remembered under `key`, and then forgotten; nullopt if there is nothing.
  std::optional<Allocation> forget(std::uint64_t key) noexcept {
    const std::lock_guard lock(mutex_);
    const auto found = allocations_.find(key);
    if (found == allocations_.end()) return std::nullopt;
    const Allocation allocation = found->second;
    allocations_.erase(found);
    return allocation;
  }

  /// The device bytes that are taken.
  [[nodiscard]] Bytes current() const {
    const std::lock_guard lock(mutex_);
    return taken();
  }
  /// The most device bytes that were taken at a time.
  [[nodiscard]] Bytes peak() const {
    const std::lock_guard lock(mutex_);
    return peak_;
  }
  /// The most headroom that was kept between calls.
  [[nodiscard]] Bytes peak_headroom() const {
    const std::lock_guard lock(mutex_);
    return peak_headroom_;
  }

 private:
  /// Live allocations of one kind; of one pool, also what it holds.
  struct PoolUse {
    Bytes whole;   ///< of allocations with blocks of their own
    Bytes shared;  ///< of the others
    Bytes reserved;
    [[nodiscard]] Bytes taken() const {
      return std::max(whole + round_up(shared, kBlock), round_up(reserved, kBlock));
    }
  };

  static Bytes rounded(Bytes size) {
    return round_up(size, size <= kLargestShared ? kAlignment : kBlock);
  }

  /// Where memory is out, a pool's allocations count as if they were from none.
  PoolUse& use_to_grow(CUmemoryPool pool) {
    if (pool == nullptr) return without_pool_;
    try {
      return pools_[pool];
    } catch (const std::bad_alloc&) {
      return without_pool_;
    }
  }
  static Bytes& count(PoolUse& use, Bytes size) {
    return size > kLargestShared ? use.whole : use.shared;
  }

  void uncount(const Allocation& allocation) {
    const Bytes size = rounded(allocation.size);
    auto found = pools_.find(allocation.pool);
    if (found != pools_.end() && count(found->second, allocation.size) < size) {
      found = pools_.end();  // memory was out
    }
    PoolUse& use = found == pools_.end() ? without_pool_ : found->second;
    count(use, allocation.size) -= size;
    if (found != pools_.end() && use.taken() == Bytes{}) pools_.erase(found);
  }

  [[nodiscard]] Bytes taken() const {
    Bytes sum = without_pool_.taken() + code_;
    for (const auto& [pool, use] : pools_) sum += use.taken();
    return sum;
  }
  [[nodiscard]] Bytes lasting_headroom() const {
    return pools_.empty() ? Bytes{} : largest_growth_;
  }
  [[nodiscard]] Bytes headroom() const {
    return lasting_headroom() * std::max<std::uint64_t>(calls_under_way_, 1) +
           kBlock * loads_under_way_;
  }

  /// By how much `apply` changes the sums.
  template <typename Apply>
  UnmanagedChange change(const Apply& apply) noexcept {
    const std::lock_guard lock(mutex_);
    const Bytes taken_before = taken(), headroom_before = headroom();
    apply();
    const Bytes taken_after = taken();
    const Bytes headroom_after = headroom();
    peak_ = std::max(peak_, taken_after);
    peak_headroom_ = std::max(peak_headroom_, lasting_headroom());
    return {difference(taken_after, taken_before), difference(headroom_after, headroom_before)};
  }
  static std::int64_t difference(Bytes after, Bytes before) {
    return static_cast<std::int64_t>(after.count()) - static_cast<std::int64_t>(before.count());
  }

  mutable std::mutex mutex_;
  std::unordered_map<std::uint64_t, Allocation> allocations_;
  std::unordered_map<CUmemoryPool, PoolUse> pools_;
  PoolUse without_pool_;
  Bytes code_;
  std::uint64_t calls_under_way_ = 0;  ///< for allocations from pools
  std::uint64_t loads_under_way_ = 0;  ///< of code
  Bytes largest_growth_ = kBlock;      ///< of a pool in one call, so far
  Bytes peak_;
  Bytes peak_headroom_;
};

}  // namespace superpipe
