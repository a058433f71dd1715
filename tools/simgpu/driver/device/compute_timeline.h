// The modelled schedule of a device's compute engines, with priorities.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <vector>

#include "tools/simgpu/driver/device/timeline.h"

namespace simgpu {

/// One or more engines, each of which runs one kernel at a time: whatever waits gets the one that
/// is free first. Of those that wait, the one with the greatest priority comes first (the lowest
/// number, as for streams), then the one that asked first. What has begun is not interrupted.
/// Thread-safe.
class ComputeTimeline {
 public:
  explicit ComputeTimeline(int engines) : free_at_(static_cast<std::size_t>(engines), 0) {}

  /// Reserves an engine for `duration`, not before `ready`. Waits, in real time, until shortly
  /// before one is free, so that what has a greater priority may still come first; not where one is
  /// free by then and nothing else waits. @return the modelled start.
  Nanoseconds reserve(Nanoseconds ready, Nanoseconds duration, int priority);
  /// Real work that was to end at `end` did so at `actual`, which is later: nothing starts on its
  /// engine before that.
  void push_back(Nanoseconds end, Nanoseconds actual);
  /// How many calls of reserve() wait.
  [[nodiscard]] std::size_t waiting();

 private:
  struct Request {
    Nanoseconds ready;
    int priority;
    std::uint64_t number;  ///< in the order of the calls

    [[nodiscard]] bool comes_before(const Request& other) const {
      return priority != other.priority ? priority < other.priority : number < other.number;
    }
  };

  /// Whether nothing that is ready by `start` comes before `request`.
  [[nodiscard]] bool is_next(const Request& request, Nanoseconds start) const;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Nanoseconds> free_at_;  ///< by engine
  std::vector<Request> requests_;     ///< that wait
  std::uint64_t requested_ = 0;
};

}  // namespace simgpu
