// The address space of managed buffers: one reservation, and which buffer owns each granule of it.
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <unordered_map>

#include "policy/units.h"
#include "residency/device_memory.h"

namespace superpipe {

/// Whether `address` is such that its two halves of 32 bits are small integers, of which programs
/// have many: the lower one within kSmallInteger of 0, as a signed number.
constexpr std::uint64_t kSmallInteger = std::uint64_t{16} << 20;
constexpr bool looks_like_two_integers(Address address) {
  return ((address + kSmallInteger) & 0xFFFF'FFFF) < 2 * kSmallInteger;
}

/// Hands out ranges of one reservation. Not thread-safe; never touches the memory.
///
/// A new range has no address that looks_like_two_integers(), as long as it is smaller than the
/// distance between these and the reservation has room for hundreds of them: a pair of numbers in
/// data of the program is then no address in a buffer, whatever the upper half of the reservation's
/// address is.
class AddressRanges {
 public:
  /// REQUIRES: `granule` divides `base` and `size`.
  AddressRanges(Address base, Bytes size, Bytes granule);

  /// A range of `size` bytes rounded up to the granule: one that was given back with exactly that
  /// size, last first, else a new one, else the first fit among what was given back, merged.
  /// @return nullopt when nothing fits. O(1) except for the last resort, which is O(free ranges).
  /// Throws std::bad_alloc, with nothing changed.
  std::optional<Address> take(Bytes size);

  /// Gives a range back; allocates nothing. REQUIRES: take(size) returned `address`, and it was not
  /// given back since.
  void give_back(Address address, Bytes size) noexcept;

 private:
  void merge_free_ranges();
  void step_over_integers(std::uint64_t want);

  const bool avoids_integers_;
  Address next_;
  Address end_;
  Bytes granule_;
  std::unordered_map<std::uint64_t, std::list<Address>> free_by_size_;  // has every size taken
  std::list<Address> spare_;  // as many nodes as ranges are taken
};

/// The arena: ranges of whole granules for buffers, with an unmapped guard of two granules between
/// them, and a table from granule to buffer. Of a guard, the granule before a buffer counts as the
/// buffer's in the table: kernels with arrays that begin at 1 get a pointer to before the first
/// element. Such an address is none in the buffer.
///
/// index_at() may be called from any thread at any time; the rest is serialised by the caller.
class Arena {
 public:
  static constexpr std::uint32_t kNobody = 0xFFFFFFFF;

  /// REQUIRES: [base, base + size) is reserved; `granule` is a power of two that divides both.
  /// The table takes 4 bytes per granule of address space, but memory only where it is touched.
  Arena(Address base, Bytes size, Bytes granule);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// Whether the table could be allocated; nothing else may be called if not.
  [[nodiscard]] bool ok() const { return table_ != nullptr; }

  /// A range for a buffer of `footprint` bytes (whole granules), without owner yet; a granule of
  /// the guard lies before it, one behind. nullopt: full. Throws std::bad_alloc, with nothing
  /// changed.
  std::optional<Address> take(Bytes footprint);
  void give_back(Address address, Bytes footprint) noexcept;

  /// Makes `index` the owner of the range and of the granule before it, or kNobody. What was
  /// written before is visible to a thread that finds `index`.
  void set_owner(Address address, Bytes footprint, std::uint32_t index);

  /// The owner of the granule that holds `word`, which may lie before the owner's range; kNobody
  /// for any other word. One compare, one load.
  [[nodiscard]] std::uint32_t index_at(std::uint64_t word) const noexcept {
    const std::uint64_t offset = word - base_;
    if (offset >= size_) return kNobody;
    // Owners are stored plus one, so that untouched (zero) entries mean kNobody.
    return table_[offset >> shift_].load(std::memory_order_acquire) - 1;
  }

 private:
  Address base_;
  std::uint64_t size_;
  unsigned shift_;
  Bytes granule_;
  std::atomic<std::uint32_t>* table_ = nullptr;
  AddressRanges ranges_;
};

}  // namespace superpipe
