// When buffers came, went and were used: what a picture of residency is drawn from.
#pragma once

#include <chrono>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "policy/units.h"
#include "profiler/completion.h"
#include "profiler/timeline_event.h"

namespace superpipe {

/// Collects events in memory, up to a bound. Events beyond it are dropped, and so are events for
/// which there is no host memory.
///
/// Not thread-safe. A launch's time is that of its submission, or of the arrival of the buffer that
/// it waits for; a fetch begins when its page is vacated; a transfer ends when its owner learned of
/// it, late by the time between two looks (up to 0.2 ms in the worker).
class Timeline {
 public:
  using Kind = TimelineEvent::Kind;
  using TimePoint = std::chrono::steady_clock::time_point;

  /// Something happened at `time`.
  void add(Kind kind, TimePoint time, BufferId buffer, Bytes size) noexcept {
    if (events_.size() >= kMostEvents) return;
    try {
      events_.push_back({time, kind, buffer, size});
    } catch (const std::bad_alloc&) {
      // The event is left out.
    }
  }

  /// Something will have happened once `done` completes; null: it has, at `time`.
  void add_when(CompletionRef done, Kind kind, TimePoint time, BufferId buffer,
                Bytes size) noexcept {
    if (done == nullptr) {
      add(kind, time, buffer, size);
    } else if (events_.size() + pending_.size() < kMostEvents) {
      try {
        pending_.push_back({std::move(done), {time, kind, buffer, size}});
      } catch (const std::bad_alloc&) {
        // The event is left out.
      }
    }
  }

  /// Whatever waited for a completion that is known by now happened at `now`; what waits for one of
  /// `failed` is dropped. @return whether anything happened.
  bool settle(TimePoint now, std::span<const CompletionRef> failed) {
    std::erase_if(pending_, [&](const Pending& pending) { return contains(failed, pending.done); });
    return settle_if(now, [](const CompletionRef&) { return false; });
  }

  /// `buffer` is known to be in place at `time`: so is what had to happen before, seen or not.
  void note_arrival(BufferId buffer, TimePoint time) noexcept {
    try {
      const std::vector<CompletionRef> implied =
          awaited([buffer](const Pending& pending) { return pending.event.buffer == buffer; });
      settle_if(time, [&](const CompletionRef& done) { return contains(implied, done); });
    } catch (const std::bad_alloc&) {
      // It is seen a little later.
    }
  }

  /// What the device is to be asked about. Throws std::bad_alloc.
  [[nodiscard]] std::vector<CompletionRef> awaited() const {
    return awaited([](const Pending&) { return true; });
  }
  [[nodiscard]] bool is_waiting() const { return !pending_.empty(); }

  /// All that has happened so far; not in order of time where transfers overlap.
  [[nodiscard]] const std::vector<TimelineEvent>& events() const { return events_; }

 private:
  static constexpr std::size_t kMostEvents = 1'000'000;

  struct Pending {
    CompletionRef done;
    TimelineEvent event;
  };

  template <typename Predicate>
  [[nodiscard]] std::vector<CompletionRef> awaited(Predicate wanted) const {
    std::vector<CompletionRef> completions;
    for (const Pending& pending : pending_) {
      if (wanted(pending)) completions.push_back(pending.done);
    }
    return completions;
  }

  template <typename Predicate>
  bool settle_if(TimePoint time, Predicate is_implied) {
    const auto is_over = [&](const Pending& pending) {
      if (!pending.done->is_known() && !is_implied(pending.done)) return false;
      add(pending.event.kind, time, pending.event.buffer, pending.event.size);
      return true;
    };
    return std::erase_if(pending_, is_over) > 0;
  }

  std::vector<TimelineEvent> events_;
  std::vector<Pending> pending_;  // in the order in which they were asked for
};

}  // namespace superpipe
