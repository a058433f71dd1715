// Of which sizes pages are lacking.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "policy/budget.h"
#include "policy/units.h"

namespace superpipe {

/// The sizes of the pages that are lacking, so that victims with such pages can be preferred: a
/// page of another size has to be destroyed, and one of the right size created in its stead.
///
/// A launch may lack pages of several sizes at once: buffers end in pieces of sizes of their own.
/// Allocates nothing. Not thread-safe.
class PagesLacking {
 public:
  /// Pages of `size`, however many; 0: of any size.
  // NOLINTNEXTLINE(google-explicit-constructor): most callers lack pages of one size, or of any.
  PagesLacking(Bytes size) : is_bounded_(false) {
    if (size > Bytes{}) sizes_[used_++] = {size, kAnyNumber};
  }
  /// It does not matter of which size they are.
  [[nodiscard]] static PagesLacking of_any_size() { return {Bytes{}}; }
  /// None yet: any will do until one is added.
  PagesLacking() = default;

  /// One more page of `size`. Of more than eight sizes the first eight are remembered.
  void add(Bytes size) {
    const std::size_t at = find(size);
    if (at == sizes_.size()) return;
    if (at == used_) sizes_[used_++] = {size, Bytes{}};
    sizes_[at].bytes += size;
  }
  /// Up to `bytes` of pages of `size` are there, or soon will be.
  void take(Bytes size, Bytes bytes) {
    const std::size_t at = find(size);
    if (!is_bounded_ || at == used_) return;
    sizes_[at].bytes = saturating_subtract(sizes_[at].bytes, bytes);
  }
  /// Forgets all sizes but the largest, of which any number of pages will do.
  void keep_largest() {
    const auto end = sizes_.begin() + static_cast<std::ptrdiff_t>(used_);
    const auto by_size = [](const Entry& left, const Entry& right) {
      return left.size < right.size;
    };
    if (used_ > 1) sizes_[0] = *std::max_element(sizes_.begin(), end, by_size);
    sizes_[0].bytes = kAnyNumber;
    used_ = std::min<std::size_t>(used_, 1);
    is_bounded_ = false;
  }
  /// Whether pages of `size` are still lacking, or it does not matter of which size they are.
  [[nodiscard]] bool includes(Bytes size) const {
    const std::size_t at = find(size);
    return is_any() || (at < used_ && sizes_[at].bytes > Bytes{});
  }
  /// Whether take() changes anything.
  [[nodiscard]] bool is_bounded() const { return is_bounded_ && used_ > 0; }
  /// Whether pages of all sizes will do.
  [[nodiscard]] bool is_any() const { return used_ == 0; }
  /// Calls `visit` with each size.
  template <typename Visit>
  void for_each_size(const Visit& visit) const {
    for (std::size_t i = 0; i < used_; ++i) visit(sizes_[i].size);
  }

 private:
  static constexpr Bytes kAnyNumber{~std::uint64_t{0}};
  struct Entry {
    Bytes size;
    Bytes bytes;
  };
  // The place of a size in sizes_; used_ if it has none.
  [[nodiscard]] std::size_t find(Bytes size) const {
    std::size_t at = 0;
    while (at < used_ && sizes_[at].size != size) ++at;
    return at;
  }

  std::array<Entry, 8> sizes_{};
  std::size_t used_ = 0;
  bool is_bounded_ = true;
};

}  // namespace superpipe
