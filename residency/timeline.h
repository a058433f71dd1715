// When buffers came, went and were used: what a picture of residency is drawn from.
#pragma once

#include <chrono>
#include <cstdint>
#include <list>
#include <vector>

#include "policy/units.h"
#include "residency/event_pool.h"

namespace superpipe {

/// One thing that happened to one buffer.
struct TimelineEvent {
  enum class Kind : std::uint8_t { kLaunch, kFetchBegin, kFetchEnd, kEvictBegin, kEvictEnd };
  std::chrono::steady_clock::time_point time;
  Kind kind = Kind::kLaunch;
  BufferId buffer{};
  Bytes size;
};

/// Collects events in memory, up to a bound; what comes after it is dropped.
///
/// Not thread-safe: the manager's mutex guards it. A launch's time is that of its submission; the
/// end of a transfer is when the worker saw it, late by its rest (up to 0.2 ms).
class Timeline {
 public:
  using Kind = TimelineEvent::Kind;
  using TimePoint = std::chrono::steady_clock::time_point;

  /// Something happened at `time`.
  void add(Kind kind, TimePoint time, BufferId buffer, Bytes size) {
    if (events_.size() < kMostEvents) events_.push_back({time, kind, buffer, size});
  }

  /// Something will have happened once `done` completes; null: it has, at `time`.
  void add_when(EventRef done, Kind kind, TimePoint time, BufferId buffer, Bytes size) {
    if (done == nullptr) {
      add(kind, time, buffer, size);
    } else if (events_.size() + pending_.size() < kMostEvents) {
      pending_.push_back({std::move(done), {time, kind, buffer, size}});
    }
  }

  /// An event that is waited for.
  struct Pending {
    EventRef done;
    TimelineEvent event;
  };
  [[nodiscard]] std::list<Pending>& pending() { return pending_; }
  [[nodiscard]] bool waits() const { return !pending_.empty(); }

  /// All that has happened so far; not in order of time where transfers overlap.
  [[nodiscard]] const std::vector<TimelineEvent>& events() const { return events_; }

 private:
  static constexpr std::size_t kMostEvents = 1'000'000;

  std::vector<TimelineEvent> events_;
  std::list<Pending> pending_;
};

}  // namespace superpipe
