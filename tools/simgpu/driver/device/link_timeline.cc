#include "tools/simgpu/driver/device/link_timeline.h"

#include <algorithm>

namespace simgpu {
namespace {

// More than can overlap a copy that starts now, unless thousands of small ones run ahead of it.
constexpr std::size_t kMostSlots = 1024;

}  // namespace

LinkTimeline::LinkTimeline(double duplex, SharedDevice* shared)
    : shared_(shared), left_(2 * duplex - 1) {}

Slot LinkTimeline::reserve(Direction direction, Nanoseconds ready, Nanoseconds duration) {
  const std::lock_guard lock{mutex_};
  Lane& mine = lane(direction);
  const int number = static_cast<int>(direction);
  Nanoseconds taken = shared_ == nullptr ? 0 : shared_->free_at(number);
  Slot slot;
  do {
    slot = slot_from(direction, std::max({ready, mine.free_at, taken}), duration);
  } while (shared_ != nullptr && !shared_->take_link(number, taken, slot.end));
  mine.free_at = slot.end;
  mine.slots.push_back(slot);
  if (mine.slots.size() > kMostSlots) mine.slots.pop_front();
  return slot;
}

// What a copy that starts then gets, with what the opposite direction has to do.
Slot LinkTimeline::slot_from(Direction direction, Nanoseconds start, Nanoseconds duration) {
  Nanoseconds at = start;
  auto rest = static_cast<double>(duration);
  if (left_ < 1) {
    for (const Slot& other : opposite(direction).slots) {
      if (other.end <= at) continue;
      // Alone until the other copy starts, then slowed until it ends.
      const Nanoseconds alone = std::max<Nanoseconds>(other.start - at, 0);
      if (rest <= static_cast<double>(alone)) break;
      rest -= static_cast<double>(alone);
      at += alone;
      const auto both = static_cast<double>(other.end - at);
      if (rest <= both * left_) {
        at += static_cast<Nanoseconds>(rest / left_);
        rest = 0;
        break;
      }
      rest -= both * left_;
      at = other.end;
    }
  }
  return {start, at + static_cast<Nanoseconds>(rest)};
}

void LinkTimeline::push_back(Direction direction, Nanoseconds actual) {
  const std::lock_guard lock{mutex_};
  Lane& mine = lane(direction);
  mine.free_at = std::max(mine.free_at, actual);
  if (shared_ != nullptr) shared_->push_back(static_cast<int>(direction), actual);
}

}  // namespace simgpu
