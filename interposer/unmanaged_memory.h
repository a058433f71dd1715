// Device memory that is left to the driver but counts against the budget.
#pragma once

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
/// taken to be packed. Thread-safe. Frees do not say how much they free: that is what this is for.
class UnmanagedMemory {
 public:
  static constexpr Bytes kBlock = 2_MiB;
  static constexpr Bytes kLargestShared = 1_MiB;
  static constexpr Bytes kAlignment{512};

  /// Counts an allocation of `size` bytes. @return the device bytes that it adds, often none.
  Bytes take(Bytes size) noexcept {
    const std::lock_guard lock(mutex_);
    const Bytes before = total();
    count(size) += rounded(size);
    const Bytes after = total();
    if (after > peak_) peak_ = after;
    return after - before;
  }

  /// Takes that back. @return the device bytes that come free. REQUIRES: take() of that size.
  Bytes give_back(Bytes size) noexcept {
    const std::lock_guard lock(mutex_);
    const Bytes before = total();
    count(size) -= rounded(size);
    return before - total();
  }

  /// Remembers under what the `size` bytes that take() counted will be freed. @return false if
  /// memory is out; they then stay counted for good.
  bool remember(std::uint64_t key, Bytes size) noexcept {
    const std::lock_guard lock(mutex_);
    try {
      sizes_[key] = size;
    } catch (const std::bad_alloc&) {
      return false;
    }
    return true;
  }

  /// The size remembered under `key`, which is then forgotten; nullopt if there is none.
  std::optional<Bytes> forget(std::uint64_t key) noexcept {
    const std::lock_guard lock(mutex_);
    const auto found = sizes_.find(key);
    if (found == sizes_.end()) return std::nullopt;
    const Bytes size = found->second;
    sizes_.erase(found);
    return size;
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
  Bytes& count(Bytes size) { return size <= kLargestShared ? shared_ : whole_; }
  [[nodiscard]] Bytes total() const { return whole_ + round_up(shared_, kBlock); }

  mutable std::mutex mutex_;
  std::unordered_map<std::uint64_t, Bytes> sizes_;
  Bytes whole_;   // of allocations with blocks of their own
  Bytes shared_;  // of the others
  Bytes peak_;
};

}  // namespace superpipe
