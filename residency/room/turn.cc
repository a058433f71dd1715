#include "residency/room/turn.h"

#include <utility>

namespace superpipe {

bool Turn::take(ResidencyCore::Clock::time_point deadline) noexcept {
  TurnQueue::Place place;
  core_.turn.join(place);
  while (!core_.turn.take(place)) {
    if (core_.wait_change(deadline)) continue;
    core_.turn.leave(place);
    core_.waits.announce();  // another operation is the first in the queue now
    return false;
  }
  ++core_.turns;
  taken_ = true;
  return true;
}

void Turn::end() noexcept {
  if (!std::exchange(taken_, false)) return;
  core_.turn.end();
  core_.waits.announce();
}

}  // namespace superpipe
