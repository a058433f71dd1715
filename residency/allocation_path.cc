// The beginning and the end of a buffer's life, and the cache in between.
#include <algorithm>
#include <utility>

#include "residency/residency_impl.h"

namespace superpipe {
Result<Address> ResidencyManager::Impl::allocate(Bytes size, std::optional<StreamHandle> stream) {
  if (size == Bytes{}) return Status::kInvalidValue;
  // No device is that large: what a program that tests for memory by asking for too much expects.
  if (size > options_.arena_size) return Status::kOutOfDeviceMemory;
  if (abandoned_) return Status::kDeviceError;
  const Bytes backing = moves() ? HostStore::backing_of(size) : Bytes{};
  // Reserved first: content must never lack a place to go to.
  const bool backed = host_.reserve(backing);
  Lock lock(mutex_);
  if (!backed) {
    warn_once([&] {
      return std::pair{
          std::string("host"),
          "out of host memory: the host store is limited to " +
              std::to_string(host_.limit().count() >> 20) +
              " MiB (SUPERPIPE_HOST_MEM, memory available, cgroup limit); an allocation of " +
              std::to_string(size.count()) + " bytes fails"};
    });
    flush_warnings(lock);
    return Status::kOutOfHostMemory;
  }
  if (stop_) {
    host_.unreserve(backing);
    return Status::kDeviceError;
  }
  Result<Address> allocated = Status::kOutOfHostMemory;
  try {
    allocated = allocate_backed(lock, size, backing, stream);
  } catch (const std::bad_alloc&) {  // as it is
  }
  if (!allocated.ok()) host_.unreserve(backing);
  return allocated;
}

// Throws std::bad_alloc, with nothing changed.
Result<Address> ResidencyManager::Impl::allocate_backed(Lock& lock, Bytes size, Bytes backing,
                                                        std::optional<StreamHandle> stream) {
  const Bytes footprint = round_up(size, granule_);
  if (const auto cached = claim_cached(lock, footprint, stream)) {
    Buffer& buffer = buffers_[*cached];
    buffer.size.store(size.count(), std::memory_order_relaxed);
    buffer.fresh = true;
    buffer.dirty = false;
    Status status = Status::kOutOfHostMemory;
    try {
      if (asks_policy_) policy_.on_allocate(*cached, footprint);
      status = renew(lock, buffer, stream);
      if (status != Status::kOk && asks_policy_) policy_.on_free(*cached);
    } catch (const std::bad_alloc&) {
      if (asks_policy_) policy_.on_free(*cached);
    }
    refresh_limit();
    if (status == Status::kOk) {
      begin_life(*cached, size, backing);
      return buffer.base.load();
    }
    ++stats_.errors;
    buffer.place = Place::kIn;
    cache(*cached);
    return status;
  }
  const auto created = create_buffer(lock, size, footprint);
  if (!created.ok()) return created.status();
  begin_life(*created, size, backing);
  return buffers_[*created].base.load();
}

// A cached buffer of that footprint that may be reused in the order of `stream`, last freed first;
// taken out of the cache, in kFetching.
std::optional<BufferId> ResidencyManager::Impl::claim_cached(Lock& lock, Bytes footprint,
                                                             std::optional<StreamHandle> stream) {
  const auto found = by_footprint_.find(footprint.count());
  if (found == by_footprint_.end() || found->second.cached.empty()) return std::nullopt;
  // Whenever the lock was open, an id may have come to name another buffer, of another size, cached
  // as well: the generation tells.
  struct Candidate {
    BufferId id;
    std::uint64_t generation;
  };
  std::vector<Candidate> candidates;
  const auto& cached = found->second.cached;
  for (auto id = cached.rbegin(); id != cached.rend(); ++id) {
    candidates.push_back({*id, buffers_[*id].generation});
  }
  const auto claim = [this](const Candidate& candidate) {
    Buffer& buffer = buffers_[candidate.id];
    if (buffer.generation != candidate.generation || !uncache(candidate.id)) return false;
    buffer.place = Place::kFetching;
    return true;
  };
  const Slot slot = stream ? slot_of(lock, *stream) : kNoSlot;
  std::optional<Candidate> second_best;
  for (const Candidate& candidate : candidates) {
    const Buffer& buffer = buffers_[candidate.id];
    if (buffer.generation != candidate.generation) continue;
    bool usable =
        buffer.freed == nullptr || (slot < StreamTable::kShared && slot == buffer.freed_on);
    if (!usable) {
      const EventRef freed = buffer.freed;
      const Unlocked unlocked(lock);
      const auto complete = events_.is_complete(freed);
      usable = complete.ok() && *complete;
    }
    // A stream can be made to wait for another's free; a caller without one must not.
    if (!usable && stream && !second_best) second_best = candidate;
    if (usable && claim(candidate)) return candidate.id;
  }
  if (!second_best || !claim(*second_best)) return std::nullopt;
  return second_best->id;
}

// Makes a claimed cached buffer as new for `stream`: kFetching to kIn.
Status ResidencyManager::Impl::renew(Lock& lock, Buffer& buffer,
                                     std::optional<StreamHandle> stream) {
  const EventRef freed = buffer.freed;
  const EventRef ready = buffer.ready;
  if (options_.zero_fill) {
    std::vector<EventRef> after;
    for (const EventRef& event : {freed, ready}) {
      if (event != nullptr) after.push_back(event);
    }
    Transferred filled;
    {
      const Unlocked unlocked(lock);
      filled = transfers_.fill(buffer.page->window, buffer.page->extent, after);
    }
    if (filled.status != Status::kOk) {
      buffer.page->extent = buffer.page->size;
      // An end that nobody can tell: the page is never to serve anything else.
      buffer.quarantined = buffer.quarantined || filled.untracked;
      if (filled.done != nullptr) {
        // Part of it may still come: whoever has the page next must wait for that.
        buffer.ready = filled.done;
        buffer.waited = 0;
      }
      return filled.status;
    }
    buffer.page->extent = Bytes{buffer.size.load()};
    buffer.ready = filled.done;
    buffer.waited = 0;
  } else if (freed != nullptr && stream) {
    const Slot slot = slot_of(lock, *stream);
    const bool same_stream = slot == buffer.freed_on && slot != StreamTable::kShared;
    if (!same_stream) {
      const Unlocked unlocked(lock);
      const Status status = events_.stream_wait(*stream, {&freed, 1});
      if (status != Status::kOk) return status;
    }
  }
  buffer.freed = nullptr;
  buffer.place = Place::kIn;
  return Status::kOk;
}

// A new id with an address, and with pages if they can be had without evicting anything. Not yet
// live. @return kOutOfDeviceMemory (no address space; or no page, where nothing is ever evicted).
Result<BufferId> ResidencyManager::Impl::create_buffer(Lock& lock, Bytes size, Bytes footprint) {
  const auto address = arena_->take(footprint);
  if (!address) return Status::kOutOfDeviceMemory;
  std::optional<BufferId> id;
  Status named = Status::kOutOfHostMemory;
  try {
    id = buffers_.create();
    if (id && asks_policy_) policy_.on_allocate(*id, footprint);
    if (id) expect(footprint);
    named = id ? Status::kOk : Status::kOutOfDeviceMemory;
  } catch (const std::bad_alloc&) {
    if (id && asks_policy_) policy_.on_free(*id);
    if (id) buffers_.destroy(*id);
  }
  if (named != Status::kOk) {
    arena_->give_back(*address, footprint);
    return named;
  }
  Buffer& buffer = buffers_[*id];
  buffer.base.store(*address, std::memory_order_relaxed);
  buffer.size.store(size.count(), std::memory_order_relaxed);
  buffer.footprint = footprint;
  refresh_limit();  // policy was told first: it may depend on the largest buffer seen
  buffer.place = Place::kFetching;
  auto page = acquire_page(lock, footprint, false);
  // Where nothing is ever evicted, buffers freed in stream order are what room there will be.
  const auto deadline = now() + options_.wait_limit;
  while (!page.ok() && !moves() && page.status() != Status::kDeviceError &&
         cached_bytes_ > Bytes{} && wait_change(lock, deadline)) {
    page = acquire_page(lock, footprint, false);
  }
  Status status = page.ok() ? attach(lock, *id, std::move(*page)) : page.status();
  const bool may_wait_outside =
      moves() && (status == Status::kTimedOut || status == Status::kOutOfDeviceMemory);
  if (may_wait_outside) {
    buffer.place = Place::kOut;
    status = Status::kOk;
  }
  if (status == Status::kOk) return *id;
  if (asks_policy_) policy_.on_free(*id);
  refresh_limit();
  drop(*id);
  return status == Status::kTimedOut ? Status::kOutOfDeviceMemory : status;
}

void ResidencyManager::Impl::begin_life(BufferId id, Bytes size, Bytes backing) {
  Buffer& buffer = buffers_[id];
  buffer.live = true;
  buffer.backing = backing;
  live_footprint_ += buffer.footprint;
  managed_bytes_ += size;
  note_peak();
  arena_->set_owner(buffer.base.load(), buffer.footprint, index_of(id));
}

Status ResidencyManager::Impl::free(Address base, std::optional<StreamHandle> stream) try {
  const auto id_of_base = [&]() -> std::optional<BufferId> {
    const std::uint32_t index = arena_->index_at(base);
    if (index == Arena::kNobody || buffers_[BufferId{index}].base.load() != base) {
      return std::nullopt;
    }
    return BufferId{index};
  };
  Lock lock(mutex_);
  if (!id_of_base()) return Status::kInvalidValue;
  EventRef freed;
  Slot slot = 0;
  if (stream) {
    slot = slot_of(lock, *stream);
    const std::uint64_t seq = seq_;
    Status status = Status::kOk;
    {
      const Unlocked unlocked(lock);
      auto event = events_.record(*stream, seq);
      status = event.status();
      if (event.ok()) freed = std::move(*event);
    }
    if (status != Status::kOk) {
      ++stats_.errors;
      return status;
    }
  }
  // The worker never keeps a buffer long: its calls do not wait on the device.
  const auto deadline = now() + options_.wait_limit;
  for (;;) {
    const auto id = id_of_base();
    if (!id) return Status::kInvalidValue;
    const Buffer& buffer = buffers_[*id];
    const bool busy = buffer.place == Place::kFetching || buffer.place == Place::kEvicting ||
                      buffer.host_pins > 0 || buffer.slab_busy || buffer.pins > 0;
    if (!busy) {
      let_go(*id, std::move(freed), slot);
      return Status::kOk;
    }
    if (!wait_change(lock, deadline)) return Status::kTimedOut;
  }
} catch (const std::bad_alloc&) {
  return Status::kOutOfHostMemory;
}

// Ends the buffer's life: into the cache if it has pages in place, else away. Throws
// std::bad_alloc, with nothing changed.
void ResidencyManager::Impl::let_go(BufferId id, EventRef freed, Slot slot) {
  Buffer& buffer = buffers_[id];
  // What the slab's next owner has to wait for, as far as it is known.
  std::vector<EventRef> after;
  bool known = !buffer.slab_untracked && !buffer.quarantined;
  if (buffer.slab) {
    after.reserve(3 + buffer.host_operations.size());
    for (const EventRef* const event : {&freed, &buffer.ready, &buffer.write_back}) {
      if (*event != nullptr) after.push_back(*event);
    }
    for (const HostOperation& operation : buffer.host_operations) {
      // The event of a stream-ordered free comes behind every operation of the program.
      known = known && (operation.done != nullptr || freed != nullptr);
      if (operation.done != nullptr) after.push_back(operation.done);
    }
  }
  arena_->set_owner(buffer.base.load(), buffer.footprint, Arena::kNobody);
  if (asks_policy_) policy_.on_free(id);
  refresh_limit();
  live_footprint_ -= buffer.footprint;
  managed_bytes_ -= Bytes{buffer.size.load()};
  host_.unreserve(buffer.backing);
  buffer.backing = Bytes{};
  buffer.live = false;
  buffer.want = Want::kNobody;
  buffer.evict_ticket = 0;
  buffer.pinned_forever = false;
  ++buffer.generation;
  buffer.freed = std::move(freed);
  buffer.freed_on = slot;
  if (buffer.slab) {
    if (known) {
      host_.release(buffer.slab, std::move(after));
    } else {
      host_.lose(buffer.slab);
    }
    buffer.slab = Slab{};
  }
  buffer.slab_untracked = false;
  buffer.write_back = nullptr;
  buffer.host_operations.clear();
  buffer.fetch_status = Status::kOk;
  if (buffer.quarantined) {
    // Page and address stay as they are, for good: what may still run on them finds them.
    changed();
    return;
  }
  if (buffer.place == Place::kIn) {
    cache(id);
  } else {
    if (buffer.page) pool_->put(*std::exchange(buffer.page, std::nullopt));
    drop(id);
  }
  changed();
  work();
}

// Gives the address range and the id back. REQUIRES: not mapped, no page.
void ResidencyManager::Impl::drop(BufferId id) noexcept {
  Buffer& buffer = buffers_[id];
  arena_->give_back(buffer.base.load(), buffer.footprint);
  unexpect(buffer.footprint);
  buffers_.destroy(id);
}

// A buffer of that footprint comes to be: the cache has room for it from now on. Throws
// std::bad_alloc.
void ResidencyManager::Impl::expect(Bytes footprint) {
  SameSize& same_size = by_footprint_[footprint.count()];
  if (same_size.cached.capacity() <= same_size.buffers) {
    same_size.cached.reserve(2 * same_size.buffers + 2);
  }
  ++same_size.buffers;
}

void ResidencyManager::Impl::unexpect(Bytes footprint) noexcept {
  const auto found = by_footprint_.find(footprint.count());
  if (--found->second.buffers == 0) by_footprint_.erase(found);
}

void ResidencyManager::Impl::cache(BufferId id, bool oldest) noexcept {
  Buffer& buffer = buffers_[id];
  if (buffer.quarantined) return;
  auto& cached = by_footprint_.find(buffer.footprint.count())->second.cached;
  cached.insert(oldest ? cached.begin() : cached.end(), id);
  cached_bytes_ += buffer.footprint;
}

bool ResidencyManager::Impl::uncache(BufferId id) noexcept {
  const Buffer& buffer = buffers_[id];
  const auto found = by_footprint_.find(buffer.footprint.count());
  if (found == by_footprint_.end()) return false;
  auto& cached = found->second.cached;
  const auto at = std::find(cached.begin(), cached.end(), id);
  if (at == cached.end()) return false;
  cached.erase(at);
  cached_bytes_ -= buffer.footprint;
  return true;
}

void ResidencyManager::Impl::trim() {
  {
    Lock lock(mutex_);
    while (!stop_ && reclaim_one(lock)) {
    }
  }
  host_.trim();
}

}  // namespace superpipe
