// The link's modelled schedule: two directions that slow each other down.
#pragma once

#include <array>
#include <deque>
#include <mutex>

#include "tools/simgpu/driver/device/shared_devices.h"
#include "tools/simgpu/driver/device/timeline.h"

namespace simgpu {

/// The link between host and device. Each direction is first come, first served.
///
/// While both are busy they share what the link carries then, `duplex` times both bandwidths
/// together: the copy that started first keeps its speed, and the other one gets what is left of
/// it, 2 duplex - 1 of its own. In a steady flow both ways each direction comes second as often as
/// first, so each gets `duplex`. (A copy that has started is not slowed down afterwards: its end is
/// already known to whoever waits.) Copies of other processes that share the link come before or
/// after those of this one, in the same direction; opposite ones do not slow each other.
/// Thread-safe, never waits.
class LinkTimeline {
 public:
  enum class Direction { kHostToDevice, kDeviceToHost };

  /// `duplex` is from 0.5, one direction at a time, to 1, neither slows the other. `shared`: what
  /// other processes see of the link, and must outlive it; null: it has none.
  explicit LinkTimeline(double duplex, SharedDevice* shared = nullptr);

  /// Reserves a direction for a copy that takes `duration` if nothing slows it, not before `ready`.
  Slot reserve(Direction direction, Nanoseconds ready, Nanoseconds duration);
  /// A copy that reserve() gave [?, end) really ended at `actual`, which is later: nothing of its
  /// direction starts before it.
  void push_back(Direction direction, Nanoseconds actual);

 private:
  struct Lane {
    Nanoseconds free_at = 0;
    std::deque<Slot> slots;  ///< in order, disjoint; the latest ones
  };

  Slot slot_from(Direction direction, Nanoseconds start, Nanoseconds duration);
  Lane& lane(Direction direction) { return lanes_[static_cast<std::size_t>(direction)]; }
  Lane& opposite(Direction direction) { return lanes_[1 - static_cast<std::size_t>(direction)]; }

  SharedDevice* const shared_;
  const double left_;  ///< the share of its speed that the second of two copies gets
  std::mutex mutex_;
  std::array<Lane, 2> lanes_;
};

}  // namespace simgpu
