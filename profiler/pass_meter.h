// How long passes take on the device.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "profiler/completion.h"
#include "profiler/stall_meter.h"

namespace superpipe {

/// How long a pass took.
struct MeasuredPass {
  double ms = 0;  ///< from its start on the device to that of the next
  double stall_ms =
      0;  ///< the stalls that were seen to end in it; the last may be seen in the next
  std::uint64_t begin = 0;  ///< policy's number of its first launch
  std::uint64_t end = 0;    ///< the same of the next pass

  [[nodiscard]] std::uint64_t launches() const { return end - begin; }
  bool operator==(const MeasuredPass&) const = default;
};

/// Measures the time from one start of a pass that the device has reached to the next, and how much
/// of it launches stalled.
///
/// The host may be passes ahead of the device. The owner of the meter asks the device about
/// awaited() and then calls settle(). Not thread-safe.
class PassMeter {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  /// `stalls` must outlive the meter, and be settled before it.
  explicit PassMeter(const StallMeter& stalls) : stalls_(stalls) {}

  /// A pass, whose first launch has the number `launch`, begins once `start` is complete. Throws
  /// std::bad_alloc; the pass then joins the one before it.
  void note_start(CompletionRef start, std::uint64_t launch) {
    starts_.push_back({std::move(start), launch});
  }

  /// The start that the device reaches next; empty if there is none. Throws std::bad_alloc.
  [[nodiscard]] std::vector<CompletionRef> awaited() const {
    return starts_.empty() ? std::vector<CompletionRef>{} : std::vector{starts_.front().reached};
  }
  [[nodiscard]] bool is_waiting() const { return !starts_.empty(); }

  /// Takes the starts that are known to be reached, at `now`; those of `failed` will never be known
  /// to be. Throws std::bad_alloc. @return whether there was any.
  bool settle(TimePoint now, std::span<const CompletionRef> failed) {
    bool any = false;
    while (!starts_.empty()) {
      const bool has_failed = contains(failed, starts_.front().reached);
      if (!has_failed && !starts_.front().reached->is_known()) break;
      const std::uint64_t launch = starts_.front().launch;
      starts_.pop_front();
      any = true;
      if (has_failed) continue;
      if (last_) {
        const std::chrono::duration<double, std::milli> length = now - *last_;
        const double stalled = stalls_.stall_ms() - stalled_before_;
        add({length.count(), stalled, first_launch_, launch});
      }
      last_ = now;
      stalled_before_ = stalls_.stall_ms();
      first_launch_ = launch;
    }
    return any;
  }

  /// The last passes that have ended, in order: at least kKept of them, if there were so many.
  [[nodiscard]] const std::vector<MeasuredPass>& passes() const { return passes_; }
  /// How many have ended.
  [[nodiscard]] std::uint64_t count() const { return count_; }

  static constexpr std::size_t kKept = 8192;

  /// Forgets the starts that are awaited.
  void clear() { starts_.clear(); }

 private:
  struct Start {
    CompletionRef reached;
    std::uint64_t launch = 0;
  };

  // A program of days has millions of passes.
  void add(const MeasuredPass& pass) {
    if (passes_.size() == 2 * kKept) {
      passes_.erase(passes_.begin(), passes_.begin() + static_cast<std::ptrdiff_t>(kKept));
    }
    passes_.push_back(pass);
    ++count_;
  }

  const StallMeter& stalls_;
  std::deque<Start> starts_;
  std::optional<TimePoint> last_;
  double stalled_before_ = 0;       // of all stalls, when the last start was taken
  std::uint64_t first_launch_ = 0;  // of the pass that began then
  std::vector<MeasuredPass> passes_;
  std::uint64_t count_ = 0;
};

}  // namespace superpipe
