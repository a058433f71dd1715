// How long pinned host memory may lie idle before it is given back to the system.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>

#include "policy/units.h"
#include "residency/tuning.h"

namespace superpipe {

/// Tells how long a slab may be idle before it is unpinned: at least kShortest. When one of a size
/// has to be pinned again soon after one was unpinned, or is asked for when it was about to be, the
/// time was too short: it becomes twice as long as that slab was, or would have been, idle, for all
/// sizes. So a program whose passes take longer than that pins again what was unpinned in one of
/// them, and no more. Not thread-safe. Allocates nothing.
class IdlePatience {
 public:
  using Clock = std::chrono::steady_clock;

  /// The bounds of length().
  static constexpr Clock::duration kShortest = tuning::kSlabShortestIdle;
  static constexpr Clock::duration kLongest = tuning::kSlabLongestIdle;

  [[nodiscard]] Clock::duration length() const { return length_; }

  /// A slab that had been idle for `idle` was asked for. Where that is longer than length(), it was
  /// only not unpinned yet.
  void note_asked_for(Clock::duration idle) {
    if (idle >= length_) lengthen(idle);
  }

  /// A slab of `size` that has been idle since `since` is unpinned.
  void note_unpinned(Bytes size, Clock::time_point since) {
    const auto known = std::ranges::find(unpinned_, size, &Unpinned::size);
    Unpinned& noted = known != unpinned_.end() ? *known : unpinned_[next_++ % kRemembered];
    noted = {size, since};
  }

  /// A slab of `size` has to be pinned: if one was unpinned, it would be needed now.
  void note_missing(Bytes size, Clock::time_point now) {
    const auto known = std::ranges::find(unpinned_, size, &Unpinned::size);
    if (known == unpinned_.end()) return;
    lengthen(now - known->since);
    *known = {};
  }

 private:
  struct Unpinned {
    Bytes size;  ///< 0: none
    Clock::time_point since;
  };
  // A slab would have had to be kept while it was idle for `idle`.
  void lengthen(Clock::duration idle) {
    if (idle <= kLongest / 2) length_ = std::max(length_, 2 * idle);
  }

  /// One size that is asked for again is enough to learn from, so that few are remembered.
  static constexpr std::size_t kRemembered = 16;

  Clock::duration length_ = kShortest;
  std::array<Unpinned, kRemembered> unpinned_{};  ///< a ring of different sizes
  std::size_t next_ = 0;
};

}  // namespace superpipe
