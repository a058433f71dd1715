#include "residency/host_store.h"

#include <sys/mman.h>

#include <cstring>
#include <iterator>
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
  // Candidates of the right size leave the list while their events are asked for, so that two
  // threads never get the same one.
  std::vector<Idle> idle = take_idle();
  Slab found;
  for (std::size_t i = idle.size(); i-- > 0 && !found;) {
    if (idle[i].slab.size != size) continue;
    const auto complete = events_.all_complete(idle[i].after);
    if (!complete.ok() || !*complete) continue;
    found = idle[i].slab;
    idle.erase(idle.begin() + static_cast<std::ptrdiff_t>(i));
  }
  put_idle(std::move(idle));
  if (found) {
    if (zeroed) std::memset(found.data, 0, found.size.count());
    return found;
  }

  if (!make_room(size, false) && !make_room(size, true)) return Status::kOutOfHostMemory;
  void* const data = mmap(nullptr, size.count(), PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  Status status = data == MAP_FAILED ? Status::kOutOfHostMemory : device_.pin(data, size);
  if (status != Status::kOk) {
    if (data != MAP_FAILED) munmap(data, size.count());
    const std::lock_guard lock(mutex_);
    pinned_ -= size;
    return status;
  }
  return Slab{static_cast<std::byte*>(data), size};
}

void HostStore::release(Slab slab, std::vector<EventRef> after) {
  if (!slab) return;
  const std::lock_guard lock(mutex_);
  idle_.push_back({slab, std::move(after)});
}

void HostStore::trim() {
  std::vector<Idle> keep;
  for (Idle& entry : take_idle()) {
    const auto complete = events_.all_complete(entry.after);
    if (complete.ok() && *complete) {
      destroy(entry.slab);
    } else {
      keep.push_back(std::move(entry));
    }
  }
  put_idle(std::move(keep));
}

Bytes HostStore::reserved() const {
  const std::lock_guard lock(mutex_);
  return reserved_;
}

Bytes HostStore::pinned() const {
  const std::lock_guard lock(mutex_);
  return pinned_;
}

std::vector<HostStore::Idle> HostStore::take_idle() {
  std::unique_lock lock(mutex_);
  returned_.wait(lock, [this] { return !taken_; });
  taken_ = true;
  return std::exchange(idle_, {});
}

void HostStore::put_idle(std::vector<Idle> idle) {
  const std::lock_guard lock(mutex_);
  taken_ = false;
  returned_.notify_one();
  idle_.insert(idle_.begin(), std::make_move_iterator(idle.begin()),
               std::make_move_iterator(idle.end()));
}

void HostStore::destroy(const Slab& slab) {
  // Memory that the device still has registered must stay mapped: better lost than reused under it.
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
  std::vector<Idle> idle = take_idle();
  bool done = false;
  while (!done && !idle.empty()) {
    std::size_t victim = idle.size();
    for (std::size_t i = 0; i < idle.size() && victim == idle.size(); ++i) {
      const auto complete = events_.all_complete(idle[i].after);
      if (complete.ok() && *complete) victim = i;
    }
    if (victim == idle.size()) {
      if (!wait) break;
      bool completed = true;
      for (const EventRef& event : idle.front().after) {
        completed = completed && events_.wait(event, wait_limit_) == Status::kOk;
      }
      if (!completed) break;
      continue;
    }
    destroy(idle[victim].slab);
    idle.erase(idle.begin() + static_cast<std::ptrdiff_t>(victim));
    done = counted();
  }
  put_idle(std::move(idle));
  return done;
}

}  // namespace superpipe
