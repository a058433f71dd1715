// What is missing on the device, by the launches that are expected to use it first.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "policy/units.h"

namespace superpipe {

/// Adds up what has to come before each launch to come, so that a caller that knows how long both
/// take can tell when the link has to begin.
///
/// Launches are counted in groups of equal length, which becomes longer when uses are expected that
/// lie further ahead than kGroups of them. Pure, not thread-safe. Allocates nothing.
class MissingBytes {
 public:
  static constexpr std::size_t kGroups = 256;

  /// Launch `present` is the present one: what was expected to be used by it or before does not
  /// count any more, except what is in the group of the next one. REQUIRES: no less than before.
  /// Amortised O(1) a launch.
  void advance(std::uint64_t present) {
    next_ = present + 1;
    const std::uint64_t group = group_of(next_);
    const std::uint64_t first = group_of(begin_);
    if (group == first) return;
    for (std::uint64_t gone = first; gone < std::min(group, first + kGroups); ++gone) at(gone) = 0;
    begin_ = group << shift_;
  }

  /// `bytes` are missing that launch `next_use` is expected to use.
  void add(std::uint64_t next_use, Bytes bytes) {
    if (next_use < begin_) return;
    while (group_of(next_use) >= group_of(begin_) + kGroups) lengthen_groups();
    at(group_of(next_use)) += bytes.count();
  }
  /// What was added is not missing any more, or is expected to be used by another launch.
  void remove(std::uint64_t next_use, Bytes bytes) {
    if (next_use >= begin_) at(group_of(next_use)) -= bytes.count();
  }
  /// Nothing is missing.
  void clear() {
    groups_ = {};
    shift_ = 0;
    begin_ = next_;
  }

  /// The launch after the present one.
  [[nodiscard]] std::uint64_t next_launch() const { return next_; }

  /// Calls `visit` with the first launch of each group for which anything is missing, but at least
  /// the next one, and all that is missing up to the end of the group; in order. O(kGroups).
  template <typename Visit>
  void for_each_sum(const Visit& visit) const {
    Bytes due;
    const std::uint64_t first = group_of(begin_);
    for (std::uint64_t group = first; group < first + kGroups; ++group) {
      const std::uint64_t bytes = groups_[group % kGroups];
      if (bytes == 0) continue;
      due += Bytes{bytes};
      visit(std::max(group << shift_, next_), due);
    }
  }

 private:
  [[nodiscard]] std::uint64_t group_of(std::uint64_t launch) const { return launch >> shift_; }
  [[nodiscard]] std::uint64_t& at(std::uint64_t group) { return groups_[group % kGroups]; }

  void lengthen_groups() {
    const std::array<std::uint64_t, kGroups> former = std::exchange(groups_, {});
    const std::uint64_t first = group_of(begin_);
    ++shift_;
    for (std::uint64_t group = first; group < first + kGroups; ++group) {
      at(group / 2) += former[group % kGroups];
    }
  }

  std::array<std::uint64_t, kGroups> groups_{};  ///< bytes, a ring by the number of the group
  unsigned shift_ = 0;                           ///< a group has 2^shift_ launches
  std::uint64_t begin_ = 0;                      ///< launches before it do not count
  std::uint64_t next_ = 0;
};

}  // namespace superpipe
