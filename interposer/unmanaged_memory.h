// Device memory that is left to the driver but counts against the budget.
#pragma once

#include <cstdint>
#include <mutex>
#include <unordered_map>

#include "policy/units.h"

namespace superpipe {

/// The sizes of live pass-through allocations, by address or handle, and their total.
///
/// Thread-safe. Frees do not say how much they free: that is what this is for.
class UnmanagedMemory {
 public:
  /// What an allocation of `size` bytes takes of the device: the driver's alignment.
  [[nodiscard]] static Bytes footprint(std::uint64_t size) {
    return round_up(Bytes{size}, Bytes{512});
  }

  /// Remembers an allocation of `footprint` bytes. @return false if memory is out; it is then not
  /// remembered, and its free will not be counted.
  bool add(std::uint64_t key, Bytes footprint) noexcept {
    const std::lock_guard lock(mutex_);
    try {
      sizes_[key] = footprint;
    } catch (const std::bad_alloc&) {
      return false;
    }
    total_ += footprint;
    if (total_ > peak_) peak_ = total_;
    return true;
  }

  /// Forgets an allocation. @return its footprint; 0 for one that is not known.
  Bytes remove(std::uint64_t key) noexcept {
    const std::lock_guard lock(mutex_);
    const auto found = sizes_.find(key);
    if (found == sizes_.end()) return Bytes{};
    const Bytes footprint = found->second;
    sizes_.erase(found);
    total_ -= footprint;
    return footprint;
  }

  /// The largest total there was.
  [[nodiscard]] Bytes peak() const {
    const std::lock_guard lock(mutex_);
    return peak_;
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_map<std::uint64_t, Bytes> sizes_;
  Bytes total_;
  Bytes peak_;
};

}  // namespace superpipe
