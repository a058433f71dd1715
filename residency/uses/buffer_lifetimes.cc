#include "residency/uses/buffer_lifetimes.h"

#include <bit>
#include <new>
#include <string>
#include <utility>
#include <vector>

namespace superpipe {

Result<Address> BufferLifetimes::allocate(Bytes size, std::optional<StreamHandle> stream) {
  if (size == Bytes{}) return Status::kInvalidValue;
  // No device is that large. Programs that find out how much memory there is by asking for too much
  // expect this code.
  if (size > core_.arena_size) return Status::kOutOfDeviceMemory;
  if (core_.waits.abandoned) return Status::kDeviceError;
  const ManagerLock lock(core_.mutex);
  if (core_.waits.stopped) return Status::kDeviceError;
  const auto share = reserve_share(size);
  if (!share) {
    const Bytes together = core_.ledger.live() + size;
    const Bytes limit = core_.ledger.limit();
    core_.warnings.once("host", [&] {
      return "out of host memory: buffers of " + exact_bytes(together) +
             " are more than the host store holds, which is limited to " +
             exact_bytes(core_.host.limit()) +
             " (SUPERPIPE_HOST_MEM, memory available, cgroup limit" + core_.host.words_of_others() +
             "), and the device besides, which has room for " + exact_bytes(limit) +
             "; an allocation of " + std::to_string(size.count()) + " bytes fails";
    });
    core_.flush_warnings();
    return Status::kOutOfHostMemory;
  }
  Result<Address> allocated = Status::kOutOfHostMemory;
  try {
    allocated = allocate_with(*share, size, stream);
  } catch (const std::bad_alloc&) {
    // It stays out of host memory.
  }
  if (!allocated.ok()) core_.backing.give_back(*share, round_up(size, core_.granule));
  return allocated;
}

// Sets aside what a buffer's content takes on the host, which is nothing until the live buffers
// exceed the limit.
// @return nullopt: host and device have not enough together.
std::optional<HostBacking::Share> BufferLifetimes::reserve_share(Bytes size) {
  if (!core_.moves) return HostBacking::Share{};
  const bool had_begun = core_.backing.has_begun();
  const Bytes footprint = round_up(size, core_.granule);
  const Bytes live = core_.ledger.live() + footprint;
  if (!had_begun && live <= core_.ledger.limit()) return HostBacking::Share{};
  const auto share = core_.backing.reserve(size, footprint, core_.ledger.limit());
  if (share && core_.backing.was_short()) {
    core_.warnings.once("staying", [&] {
      return "the host store is full at " + exact_bytes(core_.host.limit()) +
             " (SUPERPIPE_HOST_MEM, memory available, cgroup limit" + core_.host.words_of_others() +
             "): buffers stay on the device "
             "instead, so that less of it is left for the others";
    });
  }
  // What was left to other processes may be room enough after all.
  const bool fits =
      !share && !had_begun && core_.page_limit.claim(live) && live <= core_.ledger.limit();
  return fits ? HostBacking::Share{} : share;
}

// Throws std::bad_alloc, with nothing changed.
Result<Address> BufferLifetimes::allocate_with(const HostBacking::Share& share, Bytes size,
                                               std::optional<StreamHandle> stream) {
  const Bytes footprint = round_up(size, core_.granule);
  Result<BufferId> id = Status::kOutOfDeviceMemory;
  auto cached = claim_cached(footprint, stream, OtherUses::kAwaited);
  if (!cached) {
    id = create(size, footprint);
    // By CUDA's rules the memory is free: where there is no other, the stream waits for the rest.
    const bool lacks_memory = !id.ok() && id.status() == Status::kOutOfDeviceMemory;
    if (lacks_memory && stream) cached = claim_cached(footprint, stream, OtherUses::kIgnored);
  }
  if (cached) {
    const Status status = reuse(*cached, size, stream);
    id = status == Status::kOk ? Result<BufferId>(*cached) : Result<BufferId>(status);
  }
  if (!id.ok()) return id.status();
  begin_life(*id, size, share);
  return core_.buffers[*id].base.load();
}

// A cached buffer of that footprint that may be reused in the order of `stream`, last freed first;
// taken out of the cache, and beginning its life. `others`: whether what other streams than that of
// the free did with it has to be over.
std::optional<BufferId> BufferLifetimes::claim_cached(Bytes footprint,
                                                      std::optional<StreamHandle> stream,
                                                      OtherUses others) {
  // Whenever the mutex was open, an id may have come to name another buffer, of another size, and
  // cached as well: the generation tells.
  std::vector<Candidate> candidates;
  const auto& cached = core_.cache.of(footprint);
  if (cached.empty()) return std::nullopt;
  for (auto id = cached.rbegin(); id != cached.rend(); ++id) {
    candidates.push_back({*id, core_.buffers[*id].generation});
  }
  const Slot slot = stream ? streams_.slot_of(*stream) : kNoSlot;
  std::optional<Candidate> second_best;
  for (const Candidate& candidate : candidates) {
    const Buffer& buffer = core_.buffers[candidate.id];
    if (buffer.generation != candidate.generation) continue;
    if (others == OtherUses::kAwaited && !is_over_beside(candidate)) continue;
    bool usable =
        buffer.freed == nullptr || (slot < StreamTable::kShared && slot == buffer.freed_on);
    if (!usable) {
      const EventRef freed = buffer.freed;
      const Unlocked unlocked(core_.mutex);
      const auto complete = core_.events.is_complete(freed);
      usable = complete.ok() && *complete;
    }
    // A stream can be made to wait for another's free; a caller without one must not.
    if (!usable && stream && !second_best) second_best = candidate;
    if (usable && claim(candidate, footprint)) return candidate.id;
  }
  if (!second_best || !claim(*second_best, footprint)) return std::nullopt;
  return second_best->id;
}

// Whether other streams than that of the free are done with a cached buffer. May open the mutex.
bool BufferLifetimes::is_over_beside(const Candidate& candidate) {
  Buffer& buffer = core_.buffers[candidate.id];
  std::vector<EventRef> ends;
  if (!buffer.rare->marked.covered(ends)) return false;
  if (ends.empty()) return true;
  Result<bool> complete = false;
  {
    const Unlocked unlocked(core_.mutex);
    complete = core_.events.all_complete(ends);
  }
  return complete.ok() && *complete && buffer.generation == candidate.generation;
}

bool BufferLifetimes::claim(const Candidate& candidate, Bytes footprint) {
  Buffer& buffer = core_.buffers[candidate.id];
  if (buffer.generation != candidate.generation ||
      !core_.cache.erase(candidate.id, footprint, buffer.bytes_in_place())) {
    return false;
  }
  core_.forget_freed(buffer);
  buffer.is_beginning = true;
  return true;
}

// Makes a claimed buffer as new; on failure it is cached again. What is not in place comes when it
// is used.
Status BufferLifetimes::reuse(BufferId id, Bytes size, std::optional<StreamHandle> stream) {
  Buffer& buffer = core_.buffers[id];
  buffer.size.store(size.count(), std::memory_order_relaxed);
  buffer.fresh = true;
  Status status = Status::kOutOfHostMemory;
  try {
    tell_of(id);
    status = mover_.renew(id, stream);
    if (status != Status::kOk && core_.asks_policy) core_.policy.on_free(id);
  } catch (const std::bad_alloc&) {
    if (core_.asks_policy) core_.policy.on_free(id);
  }
  core_.page_limit.refresh();
  if (status == Status::kOk) return status;
  ++core_.counters.errors;
  buffer.is_beginning = false;
  if (!buffer.is_untracked()) core_.put_away(id);
  return status;
}

// A new id with an address, and with pages if they can be had without evicting anything. Not yet
// live. @return kOutOfDeviceMemory (no address space; or no page, where nothing is ever evicted).
Result<BufferId> BufferLifetimes::create(Bytes size, Bytes footprint) {
  const auto address = core_.arena->take(footprint);
  if (!address) return Status::kOutOfDeviceMemory;
  const auto id = name(footprint);
  if (!id.ok()) {
    core_.arena->give_back(*address, footprint);
    return id.status();
  }
  Buffer& buffer = core_.buffers[*id];
  buffer.base.store(*address, std::memory_order_relaxed);
  buffer.size.store(size.count(), std::memory_order_relaxed);
  core_.page_limit.refresh();  // policy was told first: it may depend on the largest buffer seen
  Status status = attach_first_pages(*id);
  // It comes in when it is used.
  if (status == Status::kOutOfDeviceMemory && core_.moves) status = Status::kOk;
  if (status == Status::kOk) return *id;
  if (core_.asks_policy) core_.policy.on_free(*id);
  core_.page_limit.refresh();
  buffer.is_beginning = false;
  // A page that cannot even be unmapped stays where it is, and so does the address.
  if (!buffer.has_pages()) core_.forget_buffer(*id);
  return status;
}

// An id that policy and cache know of, of a buffer that is cut into pieces and begins its life.
Result<BufferId> BufferLifetimes::name(Bytes footprint) {
  std::optional<BufferId> id;
  try {
    id = core_.buffers.create();
    if (!id) return Status::kOutOfDeviceMemory;
    Buffer& buffer = core_.buffers[*id];
    buffer.cut(footprint, core_.piece_size_of(footprint));
    tell_of(*id);
    core_.cache.expect(footprint);
    buffer.is_beginning = true;
    return *id;
  } catch (const std::bad_alloc&) {
    if (id && core_.asks_policy) core_.policy.on_free(*id);
    if (id) core_.buffers.destroy(*id);
    return Status::kOutOfHostMemory;
  }
}

// Tells policy, if it is asked, of a buffer. Throws std::bad_alloc.
void BufferLifetimes::tell_of(BufferId id) {
  if (!core_.asks_policy) return;
  const Buffer& buffer = core_.buffers[id];
  core_.policy.on_allocate(id, buffer.footprint, static_cast<std::uint32_t>(buffer.pieces.size()));
}

// Gets all pieces in place, or none. What is made anew in each pass is used at once: with a part of
// it in place, its first launch waits all the same, and the pages are missing elsewhere. (Of LLaMA
// in 90 % of its memory, made on the device, a pass took a tenth longer with as many as there
// were.)
// @return kOutOfDeviceMemory: there are not pages enough without evicting anything.
Status BufferLifetimes::attach_first_pages(BufferId id) {
  Buffer& buffer = core_.buffers[id];
  if (core_.moves && buffer.footprint > core_.obtainable_ahead()) return Status::kOutOfDeviceMemory;
  std::vector<Page> pages;
  try {
    pages.reserve(buffer.pieces.size());
  } catch (const std::bad_alloc&) {
    return Status::kOutOfHostMemory;
  }
  Status status = Status::kOk;
  while (pages.size() < buffer.pieces.size() && status == Status::kOk) {
    auto page = acquire_first_page(buffer.bytes_of(static_cast<std::uint32_t>(pages.size())));
    status = page.status();
    if (page.ok()) pages.push_back(std::move(*page));
  }
  for (std::uint32_t piece = 0; piece < pages.size(); ++piece) {
    if (status == Status::kOk) {
      core_.pieces.enter({id, piece}, PieceState::kFetching);
      status = mover_.attach({id, piece}, std::move(pages[piece]));
    } else {
      core_.pool->put(std::move(pages[piece]));
    }
  }
  if (status != Status::kOk) (void)pages_.strip(id);
  return status;
}

// @return kOutOfDeviceMemory: there is no page to be had without evicting anything.
Result<Page> BufferLifetimes::acquire_first_page(Bytes bytes) {
  // A buffer of another size that was freed lately is about to be allocated again: where content
  // can leave, rather a part of that does.
  using Terms = PageSupply::Terms;
  auto page = pages_.acquire(bytes, core_.moves ? Terms::kAhead : Terms::kAtOnce);
  // Where nothing is ever evicted, buffers freed in stream order are what room there will be.
  const auto deadline = core_.now() + core_.options.wait_limit;
  const auto is_lacking = [&page] { return !page.ok() && page.status() != Status::kDeviceError; };
  while (!core_.moves && is_lacking() && core_.cache.bytes() > Bytes{} &&
         core_.wait_change(deadline)) {
    page = pages_.acquire(bytes, Terms::kAtOnce);
  }
  // Before such an allocation is refused, the device is asked what the program has freed.
  if (!core_.moves && is_lacking() &&
      core_.sampler.sample(MemorySampler::Settling::kBeforeRefusal)) {
    page = pages_.acquire(bytes, Terms::kAtOnce);
  }
  if (page.status() == Status::kNotYet) return Status::kOutOfDeviceMemory;
  return page;
}

void BufferLifetimes::begin_life(BufferId id, Bytes size, const HostBacking::Share& share) {
  Buffer& buffer = core_.buffers[id];
  buffer.live = true;
  buffer.number = core_.numbers.next();
  buffer.is_beginning = false;
  core_.backing.begin_life(buffer, share);
  // From the first buffer on, the worker looks at what other processes take.
  if (core_.ledger.live() == Bytes{} && core_.samples_passthrough()) core_.wake_worker();
  core_.ledger.begin_life(buffer.footprint, size);
  core_.ledger.note_peak();
  core_.arena->set_owner(buffer.base.load(), buffer.footprint, index_of(id));
  precleaner_.on_begin_life(id);
  core_.tell_whereabouts(id);
}

std::optional<BufferId> BufferLifetimes::find_base(Address base) const {
  const std::uint32_t index = core_.arena->index_at(base);
  if (index == Arena::kNobody || core_.buffers[BufferId{index}].base.load() != base) {
    return std::nullopt;
  }
  return BufferId{index};
}

Status BufferLifetimes::free(Address base, std::optional<StreamHandle> stream,
                             OtherUses others) noexcept {
  const ManagerLock lock(core_.mutex);
  const auto given = find_base(base);
  if (!given) return Status::kInvalidValue;
  EventRef freed;
  std::vector<EventRef> beside;
  Slot slot = kNoSlot;
  if (stream) {
    slot = slot_of_free(*stream);
    const std::uint64_t seq = core_.seq;
    Result<EventRef> event = Status::kDeviceError;
    {
      const Unlocked unlocked(core_.mutex);
      event = core_.events.record_now(*stream, seq);
    }
    if (!event.ok()) {
      ++core_.counters.errors;
      return event.status();
    }
    freed = std::move(*event);
    if (others == OtherUses::kAwaited) beside = ends_beside(*given, slot);
  }
  // The worker never keeps a buffer long: its calls do not wait on the device.
  const auto deadline = core_.now() + core_.options.wait_limit;
  for (;;) {
    if (const auto named = find_base(base))
      (void)left_out_.may_return(*named);  // may open the mutex
    const auto id = find_base(base);
    if (!id) return Status::kInvalidValue;
    const Buffer& buffer = core_.buffers[*id];
    const bool is_named = buffer.pins > 0 || buffer.left_out > 0;
    if (!is_named) mover_.cancel_arrivals(*id);
    if (buffer.moving == 0 && !buffer.host.is_busy() && !is_named) {
      if (!stream || others == OtherUses::kIgnored) core_.buffers[*id].rare->marked.clear();
      note_beside(core_.buffers[*id], beside);
      end_life(*id, std::move(freed), slot);
      return Status::kOk;
    }
    // The worker shall not begin to move more of it.
    take_back_wants(*id);
    evictions_.revoke(*id);
    if (!core_.wait_change(deadline)) {
      core_.warn_gave_up("for another thread to be done with a buffer that is freed");
      core_.flush_warnings();
      return Status::kTimedOut;
    }
  }
}

// Without host memory for a slot, no allocation reuses the buffer before the free has completed.
Slot BufferLifetimes::slot_of_free(StreamHandle stream) noexcept {
  try {
    return streams_.slot_of(stream);
  } catch (const std::bad_alloc&) {
    return kNoSlot;
  }
}

// Events behind what streams of other slots than `slot` did with a buffer, as far as that is not
// known to be over. The shared slot is left out: its uses have their events in the buffer. What
// cannot be marked is left out as well: by the program's own rules it is over. May open the mutex.
std::vector<EventRef> BufferLifetimes::ends_beside(BufferId id, Slot slot) noexcept try {
  std::vector<EventRef> ends;
  const Buffer& buffer = core_.buffers[id];
  const std::uint64_t last_use = buffer.last_use;
  std::uint64_t unmarked = 0;
  for (std::uint64_t left = buffer.uses; left != 0; left &= left - 1) {
    const auto other = static_cast<Slot>(std::countr_zero(left));
    if (other == slot || other == StreamTable::kShared) continue;
    if (!core_.streams.covered(other, last_use, ends)) unmarked |= std::uint64_t{1} << other;
  }
  if (unmarked != 0) streams_.mark_ends(unmarked);
  for (; unmarked != 0; unmarked &= unmarked - 1) {
    (void)core_.streams.covered(static_cast<Slot>(std::countr_zero(unmarked)), last_use, ends);
  }
  return ends;
} catch (const std::bad_alloc&) {
  return {};
}

// Notes what has to be over before the memory of a buffer that is freed is used again. Where host
// memory is out, the program's own rules have to do.
void BufferLifetimes::note_beside(Buffer& buffer, const std::vector<EventRef>& ends) noexcept try {
  SharedUses& marked = buffer.rare->marked;
  if (marked.is_lost() || marked.lacks_event()) marked.clear();  // that would never be over
  std::uint64_t number = 0;
  for (const EventRef& end : ends) {
    marked.reserve();
    marked.note({StreamHandle{}, ++number, buffer.last_use, end});
  }
} catch (const std::bad_alloc&) {
}

void BufferLifetimes::take_back_wants(BufferId id) noexcept {
  for (Piece& piece : core_.buffers[id].pieces) piece.want = Want::kNobody;
  core_.tell_whereabouts(id);
}

// Appends what the slab of a buffer that is freed in the order of `freed` waits for before it has
// another owner. @return false: that is not known, or there is no host memory to tell it.
bool BufferLifetimes::append_ends_on_slab(const Buffer& buffer, const EventRef& freed,
                                          std::vector<EventRef>& after) noexcept {
  try {
    after.reserve(1 + 2 * buffer.pieces.size() + buffer.host.operations.size());
  } catch (const std::bad_alloc&) {
    return false;
  }
  for (const Piece& piece : buffer.pieces) {
    for (const EventRef& event : {piece.ready, piece.write_back}) {
      if (event != nullptr) after.push_back(event);
    }
  }
  return buffer.host.append_ends(freed, after) && !buffer.is_untracked();
}

// Ends the buffer's life: it goes into the cache if it has pages in place, else it is forgotten.
void BufferLifetimes::end_life(BufferId id, EventRef freed, Slot slot) noexcept {
  Buffer& buffer = core_.buffers[id];
  std::vector<EventRef> after;
  const bool known = buffer.host.has_home() && append_ends_on_slab(buffer, freed, after);
  core_.arena->set_owner(buffer.base.load(), buffer.footprint, Arena::kNobody);
  evictions_.revoke(id);
  if (core_.asks_policy) core_.policy.on_free(id);
  // Policy has forgotten its pieces, too.
  for (Piece& piece : buffer.pieces) piece.told_in = false;
  core_.page_limit.refresh();
  core_.ledger.end_life(buffer.footprint, Bytes{buffer.size.load()});
  core_.backing.end_life(buffer);
  buffer.live = false;
  buffer.pinned_forever = false;
  buffer.left_out_by = KernelId{};
  ++buffer.generation;
  buffer.freed = std::move(freed);
  buffer.freed_on = slot;
  const bool is_read = known && digests_.release_later(id, buffer.host.slab, after);
  if (buffer.host.has_home() && known && !is_read) {
    core_.host.release(buffer.host.slab, std::move(after));
  }
  if (buffer.host.has_home() && !known) core_.host.keep_untracked(buffer.host.slab);
  buffer.host = HostCopy{};
  for (std::uint32_t index = 0; index < buffer.pieces.size(); ++index) {
    core_.drop_digest({id, index});
    Piece& piece = buffer.pieces[index];
    if (!piece.has_page())
      buffer.set_ready(index, nullptr);  // its page and its slab wait for that now
    piece.want = Want::kNobody;
    piece.fetch_status = Status::kOk;
    piece.write_back = nullptr;
    piece.host_digest.reset();
    piece.awaits_host_digest = false;
    piece.is_read_on_host = false;
    piece.is_zero = false;
    piece.was_precleaned = false;
    piece.changes = 0;
  }
  // Where a transfer may still run on a page, pages and address stay as they are, so that it finds
  // them; and until no launch may run that shall fault where it uses them.
  if (!buffer.is_untracked() && !left_out_.hold_back(id)) core_.put_away(id);
  core_.waits.announce();
  if (core_.wants_room()) core_.wake_worker();
  if (known) core_.wake_stocker();
}

}  // namespace superpipe
