#include "tools/simgpu/driver/device/compute_timeline.h"

#include <algorithm>
#include <chrono>

namespace simgpu {
namespace {

// How long before an engine is free it is given away. Chains of short kernels on several streams
// run ahead by up to this much, in batches.
constexpr Nanoseconds kAhead = 50'000;

std::chrono::steady_clock::time_point clock_time(Nanoseconds moment) {
  return std::chrono::steady_clock::time_point{std::chrono::nanoseconds{moment}};
}

}  // namespace

Nanoseconds ComputeTimeline::reserve(Nanoseconds ready, Nanoseconds duration, int priority) {
  std::unique_lock lock{mutex_};
  const Request request{.ready = ready, .priority = priority, .number = ++requested_};
  requests_.push_back(request);
  for (;;) {
    const auto engine = std::min_element(free_at_.begin(), free_at_.end());
    const Nanoseconds start = std::max(ready, *engine);
    const bool is_free = *engine <= ready && requests_.size() == 1;
    const bool is_due = start - now_ns() <= kAhead;
    if (is_free || (is_due && is_next(request, start))) {
      *engine = start + duration;
      std::erase_if(requests_,
                    [&](const Request& other) { return other.number == request.number; });
      const bool others_wait = !requests_.empty();
      lock.unlock();
      if (others_wait) changed_.notify_all();
      return start;
    }
    // Another one has to go first, and says so when it does; or it is too early.
    if (is_due) {
      changed_.wait(lock);
    } else {
      changed_.wait_until(lock, clock_time(start - kAhead));
    }
  }
}

bool ComputeTimeline::is_next(const Request& request, Nanoseconds start) const {
  return std::none_of(requests_.begin(), requests_.end(), [&](const Request& other) {
    return other.ready <= start && other.comes_before(request);
  });
}

void ComputeTimeline::push_back(Nanoseconds end, Nanoseconds actual) {
  const std::lock_guard lock{mutex_};
  auto engine = std::find(free_at_.begin(), free_at_.end(), end);
  // It may have been given away since: then whichever is free first is late.
  if (engine == free_at_.end()) engine = std::min_element(free_at_.begin(), free_at_.end());
  *engine = std::max(*engine, actual);
}

std::size_t ComputeTimeline::waiting() {
  const std::lock_guard lock{mutex_};
  return requests_.size();
}

}  // namespace simgpu
