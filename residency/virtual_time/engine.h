// A part of a device that does one thing at a time: a copy engine.
#pragma once

#include <deque>

#include "residency/virtual_time/virtual_clock.h"

namespace superpipe::virtual_time {

/// Hands out spans of time that do not overlap.
///
/// Work is told in the order in which it is enqueued, and may be ready long after work that is
/// enqueued later: each takes the first gap that it fits in. Work that has a place keeps it.
class Engine {
 public:
  struct Span {
    Time begin{0};
    Time end{0};
  };

  /// Reserves the first `length` of time that is free at `ready` or later. Linear in the spans that
  /// end after the last `forget_before()`.
  Span reserve(Time ready, Time length);
  /// No work that is ready before `moment` will come any more.
  void forget_before(Time moment);
  /// The sum of all spans so far.
  [[nodiscard]] Time busy() const { return busy_; }

 private:
  std::deque<Span> spans_;  ///< in order, not overlapping
  Time busy_{0};
};

}  // namespace superpipe::virtual_time
