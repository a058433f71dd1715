// When buffers came, went and were used: what a picture of residency is drawn from.
#pragma once

#include <algorithm>
#include <chrono>
#include <new>
#include <vector>

#include "policy/units.h"
#include "profiler/timeline_event.h"
#include "residency/event_pool.h"

namespace superpipe {

/// Collects events in memory, up to a bound; what comes after it is dropped, as is what finds no
/// host memory.
///
/// Not thread-safe: the manager's mutex guards it. A launch's time is that of its submission, or of
/// the arrival of the buffer that it waits for; a fetch begins when its page is vacated; the end of
/// a transfer is when the worker saw it, late by its rest (up to 0.2 ms).
class Timeline {
 public:
  using Kind = TimelineEvent::Kind;
  using TimePoint = std::chrono::steady_clock::time_point;

  /// Something happened at `time`.
  void add(Kind kind, TimePoint time, BufferId buffer, Bytes size) noexcept {
    if (events_.size() >= kMostEvents) return;
    try {
      events_.push_back({time, kind, buffer, size});
    } catch (const std::bad_alloc&) {  // left out
    }
  }

  /// Something will have happened once `done` completes; null: it has, at `time`.
  void add_when(EventRef done, Kind kind, TimePoint time, BufferId buffer, Bytes size) noexcept {
    if (done == nullptr) {
      add(kind, time, buffer, size);
    } else if (events_.size() + pending_.size() < kMostEvents) {
      try {
        pending_.push_back({std::move(done), {time, kind, buffer, size}});
      } catch (const std::bad_alloc&) {  // left out
      }
    }
  }

  /// Whatever waited for an event that is known to have completed happened at `time`.
  /// @return whether there was any.
  bool settle(TimePoint time) {
    return settle_if(time, [](const EventRef&) { return false; });
  }

  /// `buffer` is known to be in place at `time`: so is what had to happen before, seen or not.
  void settle(BufferId buffer, TimePoint time) noexcept {
    try {
      const std::vector<EventRef> implied =
          awaited([buffer](const Pending& pending) { return pending.event.buffer == buffer; });
      settle_if(time, [&](const EventRef& done) { return holds(implied, done); });
    } catch (const std::bad_alloc&) {  // seen a little later
    }
  }

  /// The events that something waits for.
  [[nodiscard]] std::vector<EventRef> awaited() const {
    return awaited([](const Pending&) { return true; });
  }
  [[nodiscard]] bool waits() const { return !pending_.empty(); }

  /// These events will never be known to complete.
  void forget(const std::vector<EventRef>& events) {
    std::erase_if(pending_, [&](const Pending& pending) { return holds(events, pending.done); });
  }

  /// All that has happened so far; not in order of time where transfers overlap.
  [[nodiscard]] const std::vector<TimelineEvent>& events() const { return events_; }

 private:
  static constexpr std::size_t kMostEvents = 1'000'000;

  struct Pending {
    EventRef done;
    TimelineEvent event;
  };

  static bool holds(const std::vector<EventRef>& events, const EventRef& event) {
    return std::find(events.begin(), events.end(), event) != events.end();
  }

  template <typename Predicate>
  [[nodiscard]] std::vector<EventRef> awaited(Predicate wanted) const {
    std::vector<EventRef> events;
    for (const Pending& pending : pending_) {
      if (wanted(pending)) events.push_back(pending.done);
    }
    return events;
  }

  template <typename Predicate>
  bool settle_if(TimePoint time, Predicate implied) {
    const auto over = [&](const Pending& pending) {
      if (!pending.done->complete && !implied(pending.done)) return false;
      add(pending.event.kind, time, pending.event.buffer, pending.event.size);
      return true;
    };
    return std::erase_if(pending_, over) > 0;
  }

  std::vector<TimelineEvent> events_;
  std::vector<Pending> pending_;  // in the order in which they were asked for
};

}  // namespace superpipe
