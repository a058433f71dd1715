// How long passes take on the device.
#pragma once

#include <chrono>
#include <deque>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "profiler/completion.h"

namespace superpipe {

/// Measures the time from one start of a pass that the device has reached to the next.
///
/// The host may be passes ahead of the device. Whoever owns the meter asks the device about
/// awaited() and then calls settle(). Not thread-safe.
class PassMeter {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  /// A pass begins once `start` is complete. Throws std::bad_alloc; the pass then joins the one
  /// before it.
  void note_start(CompletionRef start) { starts_.push_back(std::move(start)); }

  /// The start that the device reaches next; empty if there is none. Throws std::bad_alloc.
  [[nodiscard]] std::vector<CompletionRef> awaited() const {
    return starts_.empty() ? std::vector<CompletionRef>{} : std::vector{starts_.front()};
  }
  [[nodiscard]] bool is_waiting() const { return !starts_.empty(); }

  /// Takes the starts that are known to be reached, at `now`; those of `failed` will never be known
  /// to be. Throws std::bad_alloc. @return whether there was any.
  bool settle(TimePoint now, std::span<const CompletionRef> failed) {
    bool any = false;
    while (!starts_.empty()) {
      const bool has_failed = contains(failed, starts_.front());
      if (!has_failed && !starts_.front()->is_known()) break;
      starts_.pop_front();
      any = true;
      if (has_failed) continue;
      if (last_)
        pass_ms_.push_back(std::chrono::duration<double, std::milli>(now - *last_).count());
      last_ = now;
    }
    return any;
  }

  /// Milliseconds of each pass that has ended, in order.
  [[nodiscard]] const std::vector<double>& pass_ms() const { return pass_ms_; }

  /// Forgets the starts that are awaited.
  void clear() { starts_.clear(); }

 private:
  std::deque<CompletionRef> starts_;
  std::optional<TimePoint> last_;
  std::vector<double> pass_ms_;
};

}  // namespace superpipe
