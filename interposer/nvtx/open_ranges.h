// The ranges that a thread has pushed through NVTX and not popped.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

#include "profiler/trace_event.h"

namespace superpipe {

/// Keeps ranges properly nested: NVTX nests them by domain, a trace by thread.
///
/// So where a range ends under younger ones of other domains, those end too and begin again. For
/// one thread.
class OpenRanges {
 public:
  /// Ranges that are kept. Deeper ones are counted only.
  static constexpr std::size_t kMost = 64;

  struct Range {
    const void* domain;  ///< whatever stands for it
    const void* trace;   ///< in which it has begun; null: in none
    TraceIndex text;     ///< of that trace
  };

  /// A range begins: calls `begin(range)` if it is kept. @return its level in its domain.
  template <typename Begin>
  int push(const Range& range, const Begin& begin) noexcept {
    if (depth_ == kMost) return static_cast<int>(kMost + deeper_++);
    const auto level = std::ranges::count(open(), range.domain, &Range::domain);
    ranges_[depth_++] = range;
    begin(range);
    return static_cast<int>(level);
  }

  /// The youngest range of `domain` ends: calls `end(range)` for those above it, the youngest
  /// first, and for it, and `begin(range)` for those that go on. @return its level; -1 if there is
  /// none.
  template <typename Begin, typename End>
  int pop(const void* domain, const Begin& begin, const End& end) noexcept {
    if (deeper_ > 0) return static_cast<int>(kMost + --deeper_);
    std::size_t place = depth_;
    while (place > 0 && ranges_[place - 1].domain != domain) --place;
    if (place-- == 0) return -1;
    for (std::size_t i = depth_; i > place; --i) end(ranges_[i - 1]);
    for (std::size_t i = place + 1; i < depth_; ++i) ranges_[i - 1] = ranges_[i];
    --depth_;
    for (const Range& range : open().subspan(place)) begin(range);
    return static_cast<int>(std::ranges::count(open(), domain, &Range::domain));
  }

 private:
  std::span<const Range> open() const noexcept { return std::span(ranges_).first(depth_); }

  std::array<Range, kMost> ranges_{};
  std::size_t depth_ = 0;
  std::size_t deeper_ = 0;
};

}  // namespace superpipe
