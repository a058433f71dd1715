#include "residency/host_store.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <new>
#include <utility>

namespace superpipe {

HostStore::HostStore(DeviceMemory& device, EventPool& events, Bytes limit,
                     std::chrono::milliseconds wait_limit)
    : device_(device), events_(events), limit_(limit), wait_limit_(wait_limit) {}

bool HostStore::reserve(Bytes size) {
  const std::lock_guard lock(mutex_);
  if (size > limit_ || reserved_ > limit_ - size) return false;
  reserved_ += size;
  return true;
}

void HostStore::unreserve(Bytes size) {
  const std::lock_guard lock(mutex_);
  reserved_ -= size;
}

Result<Slab> HostStore::acquire(Bytes size, bool zeroed) {
  Slabs node;
  try {
    node.emplace_back();
  } catch (const std::bad_alloc&) {
    return Status::kOutOfHostMemory;
  }
  // Candidates of the right size leave the list while their events are asked for, so that two
  // threads never get the same one.
  Slabs idle = take_idle();
  Slab found;
  for (auto it = idle.rbegin(); it != idle.rend() && !found; ++it) {
    if (it->slab.size != size) continue;
    const auto complete = events_.all_complete(it->after);
    if (!complete.ok() || !*complete) continue;
    found = it->slab;
    idle.erase(std::next(it).base());
    break;
  }
  put_idle(std::move(idle));
  if (found) {
    if (zeroed) std::memset(found.data, 0, found.size.count());
    const std::lock_guard lock(mutex_);
    spare_.splice(spare_.end(), node);
    return found;
  }

  if (!make_room(size, false) && !make_room(size, true)) return Status::kOutOfHostMemory;
  void* const data = mmap(nullptr, size.count(), PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  const Status status = data == MAP_FAILED ? Status::kOutOfHostMemory : device_.pin(data, size);
  if (status != Status::kOk && data != MAP_FAILED) munmap(data, size.count());
  const std::lock_guard lock(mutex_);
  if (status != Status::kOk) {
    pinned_ -= size;
    return status;
  }
  spare_.splice(spare_.end(), node);
  return Slab{static_cast<std::byte*>(data), size};
}

void HostStore::release(Slab slab, std::vector<EventRef> after) noexcept {
  if (!slab) return;
  const std::lock_guard lock(mutex_);
  idle_.splice(idle_.end(), spare_, spare_.begin());
  idle_.back() = {slab, std::move(after)};
}

void HostStore::keep_untracked(Slab slab) noexcept {
  const std::lock_guard lock(mutex_);
  untracked_.splice(untracked_.end(), spare_, spare_.begin());
  untracked_.back() = {slab, {}};
}

void HostStore::release_untracked() noexcept {
  const std::lock_guard lock(mutex_);
  idle_.splice(idle_.end(), untracked_);
}

void HostStore::trim() {
  Slabs idle = take_idle();
  for (auto it = idle.begin(); it != idle.end();) {
    const auto complete = events_.all_complete(it->after);
    const bool over = complete.ok() && *complete;
    if (over) destroy(it->slab);
    it = over ? idle.erase(it) : std::next(it);
  }
  put_idle(std::move(idle));
}

Bytes HostStore::reserved() const {
  const std::lock_guard lock(mutex_);
  return reserved_;
}

Bytes HostStore::pinned() const {
  const std::lock_guard lock(mutex_);
  return pinned_;
}

HostStore::Slabs HostStore::take_idle() {
  std::unique_lock lock(mutex_);
  returned_.wait(lock, [this] { return !taken_; });
  taken_ = true;
  return std::exchange(idle_, {});
}

void HostStore::put_idle(Slabs idle) {
  const std::lock_guard lock(mutex_);
  taken_ = false;
  returned_.notify_one();
  idle_.splice(idle_.begin(), idle);
}

void HostStore::destroy(const Slab& slab) {
  // Memory that the device still has registered must stay mapped: better leaked than reused under
  // it.
  if (device_.unpin(slab.data) != Status::kOk) return;
  munmap(slab.data, slab.size.count());
  const std::lock_guard lock(mutex_);
  pinned_ -= slab.size;
}

// Counts `size` as pinned if the cap allows, after destroying idle slabs, oldest first.
bool HostStore::make_room(Bytes size, bool wait) {
  const auto counted = [&] {
    const std::lock_guard lock(mutex_);
    if (size > limit_ || pinned_ > limit_ - size) return false;
    pinned_ += size;
    return true;
  };
  if (counted()) return true;
  Slabs idle = take_idle();
  bool done = false;
  while (!done && !idle.empty()) {
    const auto victim = std::find_if(idle.begin(), idle.end(), [this](const Idle& entry) {
      const auto complete = events_.all_complete(entry.after);
      return complete.ok() && *complete;
    });
    if (victim == idle.end()) {
      if (!wait) break;
      bool completed = true;
      for (const EventRef& event : idle.front().after) {
        completed = completed && events_.wait(event, wait_limit_) == Status::kOk;
      }
      if (!completed) break;
      continue;
    }
    destroy(victim->slab);
    idle.erase(victim);
    done = counted();
  }
  put_idle(std::move(idle));
  return done;
}

}  // namespace superpipe
