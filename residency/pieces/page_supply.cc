#include "residency/pieces/page_supply.h"

#include <algorithm>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "residency/tuning.h"

namespace superpipe {

Result<Page> PageSupply::acquire(Bytes size, Terms terms) {
  const bool over_limit = terms == Terms::kOverLimit;
  const auto may_take = [&]() REQUIRES(manager_lock) {
    return over_limit || core_.ledger.is_within_limit();
  };
  const auto may_create = [&]() REQUIRES(manager_lock) {
    return may_take() && (over_limit || core_.ledger.admits(size));
  };
  for (;;) {
    if (may_take()) {
      if (auto page = core_.pool->take(size)) return std::move(*page);
    }
    if (may_create()) {
      if (!core_.sampler.wait_until_answered()) return Status::kDeviceError;
      if (may_create()) {
        auto created = create(size);
        if (created.ok() || created.status() != Status::kOutOfDeviceMemory) return created;
        if (reclaim_for(size, terms)) continue;
        if (core_.ledger.expects_pages() || !core_.pool->empty()) return Status::kNotYet;
        return created;
      }
    }
    if (!reclaim_for(size, terms)) return Status::kNotYet;
  }
}

Result<Page> PageSupply::create(Bytes size) {
  // Counted before the call, so that no two threads take the same room.
  core_.ledger.begin_creation(size);
  Result<Page> created = Status::kDeviceError;
  {
    const Unlocked unlocked(core_.mutex);
    created = core_.pool->create(size);
  }
  core_.ledger.end_creation(size, created.ok());
  core_.waits.announce_to_waiters();  // one may be waiting to ask the device
  if (created.ok()) core_.ledger.note_peak();
  if (!created.ok() && created.status() != Status::kOutOfDeviceMemory) ++core_.counters.errors;
  return created;
}

// Like reclaim_one(), but destroys no page so that one of `size` can be created while one of that
// size is about to come back.
bool PageSupply::reclaim_for(Bytes size, Terms terms) noexcept {
  try {
    // A cached buffer that the program allocates again need not be mapped: where idle pages of
    // other sizes are room enough, they go first.
    const bool is_room = core_.ledger.obtainable(core_.pool->idle_bytes()) >= size;
    if (!is_room && reclaim_cached(terms != Terms::kAhead, size)) return true;
    const bool may_wait = terms == Terms::kMayWait || terms == Terms::kAhead;
    if (may_wait && core_.pool->expects(size)) return false;
    return destroy_idle() || (is_room && reclaim_cached(terms != Terms::kAhead, size));
  } catch (const std::bad_alloc&) {
    return false;
  }
}

bool PageSupply::reclaim_one() noexcept {
  try {
    return reclaim_cached(/*also_lately=*/true, Bytes{}) || destroy_idle();
  } catch (const std::bad_alloc&) {
    return false;
  }
}

// The cached buffers whose pages are taken first: the oldest of each size that is not spared.
// Throws std::bad_alloc.
std::vector<BufferId> PageSupply::oldest_cached(bool also_lately) const {
  std::vector<BufferId> oldest = core_.cache.oldest_of_each_size();
  if (also_lately) return oldest;
  // A buffer may have been freed later than one that was used later.
  const auto is_spared = [this](BufferId id) REQUIRES(manager_lock) {
    return core_.is_freed_lately(core_.buffers[id]);
  };
  for (BufferId& id : oldest) {
    const auto& same_size = core_.cache.of(core_.buffers[id].footprint);
    const auto found = std::ranges::find_if_not(same_size, is_spared);
    if (found != same_size.end()) id = *found;
  }
  std::erase_if(oldest, is_spared);
  return oldest;
}

// Takes the pages from one cached buffer and forgets the buffer, one with pages of `size` if there
// is any. Looks at the oldest of each size: if that is still in use, the younger ones are as well,
// most likely. Not so where another stream than that of the free uses it: then it counts as the
// youngest, and the next ones are looked at, a few at a time.
bool PageSupply::reclaim_cached(bool also_lately, Bytes size) {
  std::size_t passed = 0;
  std::vector<BufferId> oldest = oldest_cached(also_lately);
  std::stable_partition(oldest.begin(), oldest.end(), [&](BufferId id) REQUIRES(manager_lock) {
    return core_.buffers[id].bytes_of(0) == size;
  });
  for (std::size_t i = 0; i < oldest.size(); ++i) {
    const BufferId id = oldest[i];
    Buffer& buffer = core_.buffers[id];
    const Bytes bytes = buffer.bytes_in_place();
    std::vector<EventRef> events{buffer.freed};
    for (const Piece& piece : buffer.pieces) events.push_back(piece.ready);
    std::vector<EventRef> beside;
    const bool is_marked = buffer.rare->marked.covered(beside);
    oldest.reserve(oldest.size() + 1);
    if (!core_.cache.erase(id, buffer.footprint, bytes)) continue;  // reused or reclaimed meanwhile
    core_.forget_freed(buffer);
    core_.ledger.begin_vacating(bytes);
    Result<bool> complete = false;
    Result<bool> complete_beside = false;
    {
      const Unlocked unlocked(core_.mutex);
      complete_beside = core_.events.all_complete(beside);
      complete = core_.events.all_complete(events);
    }
    core_.ledger.end_vacating(bytes);
    const bool is_over_beside = is_marked && complete_beside.ok() && *complete_beside;
    const bool is_over = is_over_beside && complete.ok() && *complete;
    const bool stripped = is_over && strip(id);
    if (!complete.ok() || !complete_beside.ok() || (is_over && !stripped)) ++core_.counters.errors;
    if (!stripped && !is_over_beside) {
      core_.note_freed(buffer);
      core_.cache.insert(id, buffer.footprint, buffer.bytes_in_place());
      const BufferId next = core_.cache.of(buffer.footprint).front();
      const bool is_spared = !also_lately && core_.is_freed_lately(core_.buffers[next]);
      if (next != id && !is_spared && passed++ < tuning::kFreedBuffersPassed) {
        oldest.push_back(next);
      }
      continue;
    }
    if (!stripped) {
      core_.note_freed(buffer);
      core_.cache.insert_oldest(id, buffer.footprint, buffer.bytes_in_place());
      continue;
    }
    core_.forget_buffer(id);
    core_.waits.announce();
    return true;
  }
  return false;
}

bool PageSupply::strip(BufferId id) noexcept {
  Buffer& buffer = core_.buffers[id];
  Bytes vacating = buffer.bytes_in_place();
  core_.ledger.begin_vacating(vacating);
  Status status = Status::kOk;
  for (std::uint32_t index = 0; index < buffer.pieces.size() && status == Status::kOk; ++index) {
    Piece& piece = buffer.pieces[index];
    if (!piece.is_in()) continue;
    const Address address = buffer.address_of(index);
    const Bytes bytes = buffer.bytes_of(index);
    {
      const Unlocked unlocked(core_.mutex);
      status = core_.device.unmap(address, bytes);
    }
    if (status != Status::kOk) continue;
    core_.ledger.end_vacating(bytes);
    vacating -= bytes;
    // Its first content may still be coming. There is room: attach() left it.
    Page page = core_.pieces.leave({id, index});
    page.forget_completed();
    if (piece.is_filling()) page.after.push_back(piece.ready);
    buffer.set_ready(index, nullptr);
    core_.pool->put(std::move(page));
  }
  core_.ledger.end_vacating(vacating);
  return status == Status::kOk;
}

// Gives one idle page back to the driver, the largest of those that nothing works on any more.
bool PageSupply::destroy_idle() {
  std::vector<Page> busy;
  std::size_t left = core_.pool->idle_pages();
  busy.reserve(left);
  std::optional<Page> victim;
  Status status = Status::kOk;
  for (; !victim && left > 0; --left) {
    victim = core_.pool->take_any();
    if (!victim) break;
    const Bytes size = victim->size;
    core_.ledger.begin_vacating(size);
    Result<bool> complete = false;
    {
      const Unlocked unlocked(core_.mutex);
      complete = core_.events.all_complete(victim->after);
      if (victim->digest != nullptr && complete.ok() && *complete) {
        complete = core_.events.is_complete(victim->digest);
      }
    }
    const bool is_over = complete.ok() && *complete && core_.sampler.wait_until_answered();
    if (!is_over) {
      // It stays counted as about to come free: others look while the mutex is open.
      busy.push_back(std::move(*victim));
      victim.reset();
      continue;
    }
    core_.ledger.end_vacating(size);
    // Only now is a page about to change: samples of the device wait for that.
    core_.ledger.begin_destruction(size);
    {
      const Unlocked unlocked(core_.mutex);
      status = core_.pool->destroy(*victim);
    }
    core_.ledger.end_destruction(size, status == Status::kOk);
    core_.waits.announce_to_waiters();
  }
  for (Page& page : busy) {
    core_.ledger.end_vacating(page.size);
    core_.pool->put(std::move(page));
  }
  if (!victim) return false;
  if (status != Status::kOk) {
    // The device may still hold it: it stays counted.
    ++core_.counters.errors;
    core_.pool->keep_untracked(std::move(*victim));
    return false;
  }
  core_.waits.announce();
  return true;
}

}  // namespace superpipe
