// Pages: new ones within the limit, and those that no live buffer holds any more.
#include <algorithm>
#include <array>
#include <new>
#include <utility>

#include "policy/budget.h"
#include "residency/residency_impl.h"

namespace superpipe {

// A page of exactly `size`, counted within the limit unless `force`.
// @return kTimedOut: none now, ask again when something changed; kOutOfDeviceMemory: the device is
// full and nothing is coming free; kOutOfHostMemory; kDeviceError.
Result<Page> ResidencyManager::Impl::acquire_page(Lock& lock, Bytes size, bool force) {
  for (;;) {
    if (force || device_bytes_ <= limit_) {
      if (auto page = pool_->take(size)) return std::move(*page);
      if (force || (size <= limit_ && device_bytes_ <= limit_ - size)) {
        device_bytes_ += size;  // before the call, so that no two threads take the same room
        ++pages_moving_;
        Result<Page> built = Status::kDeviceError;
        {
          const Unlocked unlocked(lock);
          built = pool_->build(size);
        }
        --pages_moving_;
        ++page_changes_;
        if (built.ok()) {
          note_peak();
          return built;
        }
        device_bytes_ -= size;
        if (built.status() != Status::kOutOfDeviceMemory) {
          ++stats_.errors;
          return built;
        }
        if (reclaim_one(lock)) continue;
        const bool coming = !evictions_.empty() || evicting_bytes_ > Bytes{} || !pool_->empty();
        return coming ? Status::kTimedOut : Status::kOutOfDeviceMemory;
      }
    }
    if (!reclaim_one(lock)) return Status::kTimedOut;
  }
}

// Frees pages that no live buffer holds: cached buffers first, then idle pages.
// @return false: there are none whose work has completed, or no host memory to look for them.
bool ResidencyManager::Impl::reclaim_one(Lock& lock) noexcept {
  try {
    return strip_cached(lock) || demolish_idle(lock);
  } catch (const std::bad_alloc&) {
    return false;
  }
}

// Takes the page from one cached buffer and forgets the buffer.
bool ResidencyManager::Impl::strip_cached(Lock& lock) {
  // The oldest of each size: if that is still in use, the younger ones are as well, most likely.
  std::vector<BufferId> candidates;
  for (const auto& [size, same_size] : by_footprint_) {
    if (!same_size.cached.empty()) candidates.push_back(same_size.cached.front());
  }
  for (const BufferId id : candidates) {
    Buffer& buffer = buffers_[id];
    if (!uncache(id)) continue;  // somebody reused or stripped it meanwhile
    buffer.place = Place::kEvicting;
    const std::array<EventRef, 2> events{buffer.freed, buffer.ready};
    evicting_bytes_ += buffer.footprint;
    Status status = Status::kOk;
    {
      const Unlocked unlocked(lock);
      const auto complete = events_.all_complete(events);
      if (!complete.ok()) {
        status = complete.status();
      } else if (!*complete) {
        status = Status::kTimedOut;
      } else {
        status = device_.unmap(buffer.base.load(), buffer.footprint);
      }
    }
    evicting_bytes_ -= buffer.footprint;
    if (status != Status::kOk) {
      if (status != Status::kTimedOut) ++stats_.errors;
      buffer.place = Place::kIn;
      cache(id, true);
      continue;
    }
    buffer.page->after.clear();
    pool_->put(std::move(*buffer.page));
    drop(id);
    changed();
    return true;
  }
  return false;
}

// Gives one idle page back to the driver.
bool ResidencyManager::Impl::demolish_idle(Lock& lock) {
  std::vector<Page> busy;
  std::size_t left = pool_->idle_pages();
  busy.reserve(left);
  std::optional<Page> victim;
  Status status = Status::kOk;
  for (; !victim && left > 0; --left) {
    victim = pool_->take_any();
    if (!victim) break;
    const Bytes size = victim->size;
    evicting_bytes_ += size;  // on its way, for those who look meanwhile
    ++pages_moving_;
    {
      const Unlocked unlocked(lock);
      const auto complete = events_.all_complete(victim->after);
      if (!complete.ok() || !*complete) {
        busy.push_back(std::move(*victim));
        victim.reset();
      } else {
        status = pool_->demolish(*victim);
      }
    }
    --pages_moving_;
    ++page_changes_;
    evicting_bytes_ -= size;
  }
  for (Page& page : busy) pool_->put(std::move(page));
  if (!victim) return false;
  if (status != Status::kOk) {
    // Still ours, as far as anybody knows: it stays counted.
    ++stats_.errors;
    pool_->lose(std::move(*victim));
    return false;
  }
  device_bytes_ -= victim->size;
  changed();
  return true;
}

// Gets the pages down to `bytes`. @return false if that did not come about in time.
bool ResidencyManager::Impl::shrink_to(Lock& lock, Bytes bytes, std::chrono::milliseconds wait) {
  if (device_bytes_ <= bytes) return true;
  const auto begun = now();
  const auto deadline = begun + wait;
  // Evictions behind work that does not end do not count as room for long (I7).
  const std::chrono::nanoseconds patience =
      std::min<std::chrono::nanoseconds>(wait / 4, std::chrono::milliseconds{100});
  if (!take_turn(lock, deadline)) return false;
  try {
    while (device_bytes_ > bytes && !stop_) {
      if (reclaim_one(lock)) continue;
      const Bytes excess = device_bytes_ - bytes;
      const Bytes room = now() - begun >= patience ? pool_->idle_bytes() : coming();
      const bool chosen = excess > room && evict_for(lock, excess - room) > Bytes{};
      if (!chosen && coming() == Bytes{}) break;  // nobody can go, and nothing is on its way
      const auto until =
          now() - begun >= patience ? deadline : std::min(deadline, begun + patience);
      if (!wait_change(lock, until) && now() >= deadline) break;
    }
  } catch (const std::bad_alloc&) {  // no further, then
  }
  end_turn();
  return device_bytes_ <= bytes;
}

bool ResidencyManager::Impl::make_room(Bytes size) {
  Lock lock(mutex_);
  if (stop_ || abandoned_) return false;
  const Bytes before = device_bytes_;
  const Bytes target = saturating_subtract(before, size);
  const bool made = shrink_to(lock, target, options_.wait_limit);
  flush_warnings(lock);
  return made && before > Bytes{};
}

}  // namespace superpipe
