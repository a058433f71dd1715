#include "residency/room/left_out_buffers.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace superpipe {

void LeftOutBuffers::begin(BufferId id) noexcept {
  ++core_.buffers[id].left_out;
  core_.tell_whereabouts(id);
}

void LeftOutBuffers::prepare_end(std::span<const BufferId> ids, KernelId kernel) {
  for (const BufferId id : ids) {
    Buffer& buffer = core_.buffers[id];
    (void)may_return(id);
    buffer.rare->left_out_until.reserve(buffer.rare->left_out_until.size() + buffer.left_out);
    buffer.left_out_by = kernel;
    if (std::ranges::find(buffers_, id) == buffers_.end()) buffers_.push_back(id);
  }
  core_.wake_worker();
}

void LeftOutBuffers::end(BufferId id, bool submitted, const EventRef& end) noexcept {
  Buffer& buffer = core_.buffers[id];
  --buffer.left_out;
  if (submitted && end != nullptr) buffer.rare->left_out_until.push_back(end);
  if (submitted && end == nullptr) buffer.stays_left_out = true;
  core_.tell_whereabouts(id);
}

bool LeftOutBuffers::may_return(BufferId id) noexcept {
  Buffer& buffer = core_.buffers[id];
  while (!buffer.rare->left_out_until.empty()) {
    const EventRef oldest = buffer.rare->left_out_until.front();
    Result<bool> complete = false;
    {
      const Unlocked unlocked(core_.mutex);
      complete = core_.events.is_complete(oldest);
    }
    if (complete.ok() && !*complete) return false;
    // An event of which the device tells nothing never becomes known to have completed.
    const bool was_there = std::erase(buffer.rare->left_out_until, oldest) > 0;
    if (!complete.ok() && was_there) {
      ++core_.counters.errors;
      buffer.stays_left_out = true;
    }
  }
  if (buffer.is_left_out()) return false;
  core_.tell_whereabouts(id);
  return true;
}

bool LeftOutBuffers::hold_back(BufferId id) noexcept {
  Buffer& buffer = core_.buffers[id];
  buffer.is_held_back = buffer.is_left_out();
  return buffer.is_held_back;
}

bool LeftOutBuffers::settle() noexcept {
  bool settled = false;
  EventRef running;  // many buffers wait for the same launch: it is asked about once
  // While the mutex is open others may be added at the end.
  for (std::size_t i = 0; i < buffers_.size();) {
    const BufferId id = buffers_[i];
    Buffer& buffer = core_.buffers[id];
    const auto is_known_to_wait = [&]() REQUIRES(manager_lock) {
      return buffer.left_out > 0 || (!buffer.rare->left_out_until.empty() &&
                                     buffer.rare->left_out_until.front() == running);
    };
    const bool returns = !is_known_to_wait() && may_return(id);
    const bool waits = buffer.left_out > 0 || !buffer.rare->left_out_until.empty();
    if (waits) {
      if (!buffer.rare->left_out_until.empty()) running = buffer.rare->left_out_until.front();
      ++i;
      continue;
    }
    // It returns, or it never does.
    buffers_[i] = buffers_.back();
    buffers_.pop_back();
    if (returns && std::exchange(buffer.is_held_back, false)) core_.put_away(id);
    settled = true;
  }
  if (settled) core_.waits.announce();
  return settled;
}

void LeftOutBuffers::clear() noexcept {
  for (const BufferId id : buffers_) core_.buffers[id].rare->left_out_until.clear();
  buffers_.clear();
}

}  // namespace superpipe
