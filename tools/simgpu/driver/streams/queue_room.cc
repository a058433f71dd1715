#include "tools/simgpu/driver/streams/queue_room.h"

namespace simgpu {

void QueueRoom::await() {
  std::unique_lock lock{mutex_};
  if (used_ < depth_) return;
  ++waiting_;
  room_.wait(lock, [this] { return used_ < depth_; });
  --waiting_;
}

void QueueRoom::enter() {
  const std::lock_guard lock{mutex_};
  ++used_;
}

void QueueRoom::leave() {
  std::unique_lock lock{mutex_};
  --used_;
  const bool wake = waiting_ != 0;
  lock.unlock();
  if (wake) room_.notify_all();
}

}  // namespace simgpu
