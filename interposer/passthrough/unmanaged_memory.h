// Device memory that is left to the driver but counts against the budget.
#pragma once

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <new>
#include <optional>
#include <unordered_map>
#include <vector>

#include "interposer/passthrough/memory_pools.h"
#include "policy/units.h"
#include "residency/residency_manager.h"

namespace superpipe {

/// By how much the device bytes change that are left to the driver.
struct UnmanagedChange {
  std::int64_t taken = 0;
  std::int64_t headroom = 0;  ///< kept free for what the driver may take without being asked
  friend bool operator==(const UnmanagedChange&, const UnmanagedChange&) = default;
  friend UnmanagedChange operator+(const UnmanagedChange& a, const UnmanagedChange& b) {
    return {a.taken + b.taken, a.headroom + b.headroom};
  }
};

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
    MemoryPoolPtr pool = nullptr;  ///< null: not from a pool
  };

  static constexpr Bytes kBlock = 2_MiB;
  static constexpr Bytes kLargestShared = 1_MiB;
  static constexpr Bytes kAlignment{512};
  static constexpr Bytes kLargestHeadroom = 64_MiB;

  /// Counts an allocation that the driver is about to be asked for; settle() has to follow if it is
  /// from a pool. @return what it adds, often nothing.
  UnmanagedChange take(const Allocation& allocation) noexcept {
    return change([&] {
      PoolUse& use = use_to_grow(allocation.pool);
      if (allocation.pool != nullptr) begin_call(use);
      count(use, allocation.size) += rounded(allocation.size);
    });
  }

  /// The driver is not asked after all. @return what comes free. REQUIRES: take() of the like.
  UnmanagedChange refuse(const Allocation& allocation) noexcept {
    return change([&] {
      if (allocation.pool != nullptr) end_call(allocation.pool);
      uncount(allocation);
    });
  }

  /// The allocation failed or has been freed. @return what comes free. REQUIRES: take() of the
  /// like, and settle() if it is from a pool.
  UnmanagedChange give_back(const Allocation& allocation) noexcept {
    return change([&] { uncount(allocation); });
  }

  /// Changes with every take() from `pool`: asked for before the driver is asked how much it holds.
  /// 0: nothing of it is counted.
  [[nodiscard]] std::uint64_t version_of(const MemoryPoolPtr& pool) const {
    const std::lock_guard lock(mutex_);
    const auto found = pools_.find(pool);
    return found == pools_.end() ? 0 : found->second.version;
  }

  /// The driver has answered an allocation from `pool`, and says that it holds `reserved` bytes by
  /// now (nullopt: it does not say), which was asked for at `version`.
  UnmanagedChange settle(const MemoryPoolPtr& pool, const std::optional<Bytes>& reserved,
                         std::uint64_t version) noexcept {
    return change([&] {
      const bool alone = end_call(pool);
      if (reserved) set_reserved(pool, *reserved, version, alone);
    });
  }

  /// The driver says, without an allocation, that `pool` holds `reserved` bytes.
  UnmanagedChange note_pool(const MemoryPoolPtr& pool, Bytes reserved,
                            std::uint64_t version) noexcept {
    return change([&] { set_reserved(pool, reserved, version, false); });
  }

  /// `pool` has been destroyed: what it holds goes with its last allocation, and it grows no more.
  UnmanagedChange forget_pool(const MemoryPoolPtr& pool) noexcept {
    return change([&] {
      const auto found = pools_.find(pool);
      if (found == pools_.end()) return;
      found->second.destroyed = true;
      erase_if_unused(found);
    });
  }

  /// A call begins, or has ended, that may load code.
  UnmanagedChange begin_load() noexcept {
    return change([&] { ++loads_under_way_; });
  }
  UnmanagedChange end_load() noexcept {
    return change([&] { --loads_under_way_; });
  }
  /// Loaded code takes `bytes` by now.
  UnmanagedChange set_code(Bytes bytes) noexcept {
    return change([&] { code_ = bytes; });
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

  /// The device bytes that are taken, but for code's.
  [[nodiscard]] Bytes besides_code() const {
    const std::lock_guard lock(mutex_);
    return taken() - round_up(code_, kBlock);
  }
  /// The pools that are counted.
  [[nodiscard]] std::vector<MemoryPoolPtr> pools() const {
    const std::lock_guard lock(mutex_);
    std::vector<MemoryPoolPtr> found;
    for (const auto& [pool, use] : pools_) found.push_back(pool);
    return found;
  }
  /// The most device bytes that were taken at a time.
  [[nodiscard]] Bytes peak() const {
    const std::lock_guard lock(mutex_);
    return peak_;
  }
  /// The most headroom that was kept at a time by one thread.
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
    std::uint64_t calls = 0;    ///< under way, for allocations
    std::uint64_t version = 0;  ///< of the last call
    /// But for what is still allocated from it. As far as was told here: the pool knows it earlier,
    /// and sums may only change within change().
    bool destroyed = false;
    [[nodiscard]] Bytes taken() const {
      if (destroyed && whole + shared == Bytes{}) return Bytes{};
      return std::max(whole + round_up(shared, kBlock), round_up(reserved, kBlock));
    }
  };
  using Pools = std::unordered_map<MemoryPoolPtr, PoolUse>;

  static Bytes rounded(Bytes size) {
    return round_up(size, size <= kLargestShared ? kAlignment : kBlock);
  }

  /// Where memory is out, a pool's allocations count as if they were from none.
  PoolUse& use_to_grow(const MemoryPoolPtr& pool) {
    if (pool == nullptr) return without_pool_;
    try {
      PoolUse& use = pools_[pool];
      use.destroyed = use.destroyed || pool->is_destroyed();
      return use;
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
    Bytes& counted = count(found == pools_.end() ? without_pool_ : found->second, allocation.size);
    counted -= std::min(counted, size);
    if (found != pools_.end()) erase_if_unused(found);
  }

  void begin_call(PoolUse& use) {
    ++calls_under_way_;
    ++use.calls;
    use.version = ++versions_;
  }
  /// @return whether no other call for memory of the pool was under way.
  bool end_call(const MemoryPoolPtr& pool) {
    --calls_under_way_;
    const auto found = pools_.find(pool);
    PoolUse& use = found == pools_.end() ? without_pool_ : found->second;
    if (use.calls > 0) --use.calls;
    return use.calls == 0;
  }
  void erase_if_unused(Pools::iterator pool) {
    if (pool->second.calls == 0 && pool->second.taken() == Bytes{}) pools_.erase(pool);
  }
  /// `learns`: what it has grown by is that of one call.
  void set_reserved(const MemoryPoolPtr& pool, Bytes reserved, std::uint64_t version, bool learns) {
    const auto found = pools_.find(pool);
    if (found == pools_.end() || found->second.destroyed) return;
    PoolUse& use = found->second;
    // What is less may be old news, if another call has made the pool grow since.
    if (reserved < use.reserved && (use.calls > 0 || use.version != version)) return;
    const Bytes before = use.taken();
    use.reserved = reserved;
    const Bytes after = use.taken();
    if (learns && use.version == version && after > before) {
      largest_growth_ = std::max(largest_growth_, std::min(after - before, kLargestHeadroom));
    }
    erase_if_unused(found);
  }

  [[nodiscard]] Bytes taken() const {
    Bytes sum = without_pool_.taken() + round_up(code_, kBlock);
    for (const auto& [pool, use] : pools_) sum += use.taken();
    return sum;
  }
  /// Of a pool, by one call.
  [[nodiscard]] Bytes for_growth() const {
    const bool grows = std::any_of(pools_.begin(), pools_.end(),
                                   [](const auto& pool) { return !pool.second.destroyed; });
    return grows ? largest_growth_ : Bytes{};
  }
  [[nodiscard]] Bytes headroom() const {
    return for_growth() * std::max<std::uint64_t>(calls_under_way_, 1) + kBlock * loads_under_way_;
  }
  /// Without what only calls side by side need.
  [[nodiscard]] Bytes ordinary_headroom() const {
    return for_growth() + (loads_under_way_ > 0 ? kBlock : Bytes{});
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
    peak_headroom_ = std::max(peak_headroom_, ordinary_headroom());
    return {difference(taken_after, taken_before), difference(headroom_after, headroom_before)};
  }
  static std::int64_t difference(Bytes after, Bytes before) {
    return static_cast<std::int64_t>(after.count()) - static_cast<std::int64_t>(before.count());
  }

  mutable std::mutex mutex_;
  std::unordered_map<std::uint64_t, Allocation> allocations_;
  Pools pools_;
  PoolUse without_pool_;
  Bytes code_;
  std::uint64_t calls_under_way_ = 0;  ///< for allocations from pools
  std::uint64_t loads_under_way_ = 0;  ///< of code
  std::uint64_t versions_ = 0;
  Bytes largest_growth_ = kBlock;  ///< of a pool in one call, so far
  Bytes peak_;
  Bytes peak_headroom_;
};

}  // namespace superpipe
