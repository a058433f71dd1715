// Device memory that is left to the driver but counts against the budget.
#pragma once

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <new>
#include <optional>
#include <unordered_map>

#include "policy/units.h"

namespace superpipe {

/// The sizes of live pass-through allocations, by address or handle, and what they take together.
///
/// Counted as drivers give out device memory: in blocks of 2 MiB, which allocations of up to 1 MiB
/// share and larger ones do not. How full the shared blocks are is not known from outside; they are
/// taken to be packed. Memory pools have blocks apart, keep them for later (frameworks tell them
/// to), and say how much they hold once they have grown. Thread-safe. Frees do not say how much
/// they free: that is what this is for.
class UnmanagedMemory {
 public:
  /// One pass-through allocation.
  struct Allocation {
    Bytes size;
    bool from_pool = false;
  };

  static constexpr Bytes kBlock = 2_MiB;
  static constexpr Bytes kLargestShared = 1_MiB;
  static constexpr Bytes kAlignment{512};

  /// Counts an allocation. @return the device bytes that it adds, often none.
  Bytes take(const Allocation& allocation) noexcept {
    const std::lock_guard lock(mutex_);
    const Bytes before = total();
    count(allocation) += rounded(allocation.size);
    most_in_pools_ = std::max(most_in_pools_, shared_in_pools_);
    const Bytes after = total();
    if (after > peak_) peak_ = after;
    return after - before;
  }

  /// Takes that back. @return the device bytes that come free. REQUIRES: take() of the like.
  Bytes give_back(const Allocation& allocation) noexcept {
    const std::lock_guard lock(mutex_);
    const Bytes before = total();
    count(allocation) -= rounded(allocation.size);
    return before - total();
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

  /// The driver says that pools hold `reserved` bytes. @return the device bytes that it adds.
  Bytes note_pools(Bytes reserved) noexcept {
    const std::lock_guard lock(mutex_);
    const Bytes before = total();
    most_in_pools_ = std::max(most_in_pools_, reserved);
    if (total() > peak_) peak_ = total();
    return total() - before;
  }

  /// The most device bytes that were taken at a time.
  [[nodiscard]] Bytes peak() const {
    const std::lock_guard lock(mutex_);
    return peak_;
  }

 private:
  static Bytes rounded(Bytes size) {
    return round_up(size, size <= kLargestShared ? kAlignment : kBlock);
  }
  Bytes& count(const Allocation& allocation) {
    if (allocation.size > kLargestShared) return whole_;
    return allocation.from_pool ? shared_in_pools_ : shared_;
  }
  [[nodiscard]] Bytes total() const {
    return whole_ + round_up(shared_, kBlock) + round_up(most_in_pools_, kBlock);
  }

  mutable std::mutex mutex_;
  std::unordered_map<std::uint64_t, Allocation> allocations_;
  Bytes whole_;   // of allocations with blocks of their own
  Bytes shared_;  // of the others
  Bytes shared_in_pools_;
  Bytes most_in_pools_;  // so far, by what we counted or the driver says
  Bytes peak_;
};

}  // namespace superpipe
