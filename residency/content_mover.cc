#include "residency/content_mover.h"

#include <new>
#include <optional>
#include <utility>

namespace superpipe {

bool ContentMover::fetch(BufferId id, bool demand) {
  Buffer& buffer = core_.buffers[id];
  buffer.place = Place::kFetching;
  Status status = Status::kOk;
  if (buffer.page) {
    status = remap(buffer);
  } else {
    auto page = pages_.acquire(buffer.footprint, buffer.may_exceed_limit);
    if (page.status() == Status::kNotYet) return postpone(id, demand);
    const bool copies = !buffer.fresh;
    status = page.ok() ? attach(id, std::move(*page)) : page.status();
    if (status == Status::kOk && copies) {
      core_.counters.h2d_bytes += Bytes{buffer.size.load()};
      // A launch that came to wait for it meanwhile has made it a demand.
      const bool demanded = demand || buffer.want == Want::kDemand;
      ++(demanded ? core_.counters.demand_fetches : core_.counters.prefetches);
    }
    if (!page.ok()) buffer.place = Place::kOut;
  }
  if (status != Status::kOk && buffer.want == Want::kDemand) buffer.fetch_status = status;
  buffer.want = Want::kNobody;
  buffer.may_exceed_limit = false;
  core_.tell_whereabouts(id);
  core_.announce_change();
  return true;
}

// There is no page for the buffer now. A demand waits for one; a prefetch only while one is on its
// way, for it becomes a demand when a launch names the buffer.
// @return whether the fetch is settled, because it was dropped.
bool ContentMover::postpone(BufferId id, bool demand) {
  Buffer& buffer = core_.buffers[id];
  buffer.place = Place::kOut;
  core_.announce_change();
  if (demand || core_.coming() > Bytes{}) return false;
  buffer.want = Want::kNobody;
  core_.tell_whereabouts(id);
  return true;
}

// Its eviction failed half-way: the page still has the only valid content.
Status ContentMover::remap(Buffer& buffer) {
  const Bytes footprint = buffer.footprint;
  const PageHandle handle = buffer.page->handle;
  Status status = Status::kOk;
  {
    const Unlocked unlocked(core_.mutex);
    status = core_.device.map(buffer.base.load(), footprint, handle);
  }
  buffer.place = status == Status::kOk ? Place::kIn : Place::kOut;
  if (status != Status::kOk) ++core_.counters.errors;
  return status;
}

Status ContentMover::attach(BufferId id, Page page) noexcept {
  Buffer& buffer = core_.buffers[id];
  const auto begun = core_.now();
  std::vector<EventRef> after = std::exchange(page.after, {});
  const EventRef vacated = after.empty() ? nullptr : after.front();
  if (const Status prepared = prepare_fetch(buffer, after); prepared != Status::kOk) {
    page.after = std::move(after);
    core_.pool->put(std::move(page));
    buffer.place = Place::kOut;
    ++core_.counters.errors;
    return prepared;
  }
  // What the calls need of the buffer: nobody else changes it while content moves.
  const Bytes footprint = buffer.footprint;
  const Content content{!buffer.fresh, buffer.host.slab, Bytes{buffer.size.load()}};
  Transferred filled;
  Status status = Status::kOk;
  {
    const Unlocked unlocked(core_.mutex);
    filled = fill(page, content, after);
    status = filled.status;
    if (status == Status::kOk) {
      status = core_.device.map(buffer.base.load(), footprint, page.handle);
    }
  }
  if (status != Status::kOk) {
    give_up_attach(buffer, std::move(page), filled, std::move(after));
    return status;
  }
  page.extent = core_.options.zero_fill ? Bytes{buffer.size.load()} : page.size;
  buffer.page = std::move(page);
  buffer.place = Place::kIn;
  buffer.ready = filled.done;
  if (core_.timeline != nullptr) {
    // Until its page's former content is copied out, the fetch has only been asked for.
    core_.timeline->add_when(vacated, Timeline::Kind::kFetchBegin, begun, id, buffer.footprint);
    core_.timeline->add_when(filled.done, Timeline::Kind::kFetchEnd, core_.now(), id,
                             buffer.footprint);
  }
  buffer.waited = buffer.uses = 0;
  buffer.dirty = false;
  if (!buffer.fresh) buffer.host.forget_writes();
  return Status::kOk;
}

// Appends what a fetch has to wait for, and makes room for what one that fails half-way leaves, so
// that nothing can run out of memory afterwards.
Status ContentMover::prepare_fetch(Buffer& buffer, std::vector<EventRef>& after) noexcept {
  try {
    after.reserve(after.size() + 1);
    if (buffer.fresh) return Status::kOk;
    buffer.host.reserve_operations();
    if (buffer.host.write_back != nullptr) after.push_back(buffer.host.write_back);
    return streams_.resolve(buffer.host, true, after);
  } catch (const std::bad_alloc&) {
    return Status::kOutOfHostMemory;
  }
}

// Enqueues what gives the page the buffer's content; with nothing to copy and nothing to zero it
// only joins what the page waits for.
Transferred ContentMover::fill(const Page& page, const Content& content,
                               std::vector<EventRef>& after) {
  const Bytes zero_to = core_.options.zero_fill ? page.extent : Bytes{};
  if (content.exists) {
    return core_.transfers.fetch(page.window, content.slab, content.size, zero_to, after);
  }
  if (core_.options.zero_fill || after.size() > 1) {
    return core_.transfers.fill(page.window, zero_to, after);
  }
  Transferred nothing;
  if (!after.empty()) nothing.done = after.front();
  return nothing;
}

void ContentMover::give_up_attach(Buffer& buffer, Page page, const Transferred& filled,
                                  std::vector<EventRef> after) noexcept {
  ++core_.counters.errors;
  page.extent = page.size;
  buffer.place = Place::kOut;
  if (filled.untracked) {
    buffer.host.is_untracked = buffer.host.is_untracked || !buffer.fresh;
    core_.pool->keep_untracked(std::move(page));
    return;
  }
  if (filled.done != nullptr) {
    after.assign(1, filled.done);
    // The transfer still reads the slab.
    if (!buffer.fresh) buffer.host.note({kNoSlot, StreamHandle{}, false, filled.done, 0});
  }
  page.after = std::move(after);
  core_.pool->put(std::move(page));
}

void ContentMover::evict(BufferId id) noexcept {
  Buffer& buffer = core_.buffers[id];
  const Bytes footprint = buffer.footprint;
  const Bytes size{buffer.size.load()};
  const bool writes_back = buffer.dirty && !buffer.fresh;
  buffer.place = Place::kEvicting;
  core_.tell_whereabouts(id);
  const auto begun = core_.now();
  core_.ledger.begin_vacating(footprint);
  std::vector<EventRef> after;
  Status status = writes_back ? prepare_write_back(buffer, after) : Status::kOk;
  const Slab slab = buffer.host.slab;
  const PageHandle handle = buffer.page->handle;
  const Address window = buffer.page->window;
  Transferred written;
  bool mapped = true;
  if (status == Status::kOk) {
    const Unlocked unlocked(core_.mutex);
    status = core_.device.unmap(buffer.base.load(), footprint);
    mapped = status != Status::kOk;
    if (!mapped && writes_back) {
      written = core_.transfers.write_back(window, slab, size, after);
      status = written.status;
      if (status != Status::kOk) {
        mapped = core_.device.map(buffer.base.load(), footprint, handle) == Status::kOk;
      }
    }
  }
  core_.ledger.end_vacating(footprint);
  if (status != Status::kOk) {
    // The page keeps the content: in its place or, if it cannot even be mapped, out of it.
    ++core_.counters.errors;
    buffer.place = mapped ? Place::kIn : Place::kOut;
    buffer.evict_failed = core_.turns;
    buffer.page_is_untracked = buffer.page_is_untracked || written.untracked;
    if (written.done != nullptr) buffer.host.write_back = written.done;
    core_.tell_whereabouts(id);
    core_.announce_change();
    return;
  }
  if (core_.timeline != nullptr) {
    core_.timeline->note_arrival(id, begun);
    core_.timeline->add(Timeline::Kind::kEvictBegin, begun, id, footprint);
    core_.timeline->add_when(written.done, Timeline::Kind::kEvictEnd, core_.now(), id, footprint);
  }
  if (writes_back) {
    buffer.host.write_back = written.done;
    buffer.host.operations.clear();  // the write-back comes after them
    buffer.page->after.assign(1, written.done);
    core_.counters.d2h_bytes += size;
    ++core_.counters.write_backs;
  } else {
    ++core_.counters.clean_evictions;
  }
  core_.pool->put(*std::exchange(buffer.page, std::nullopt));
  buffer.place = Place::kOut;
  buffer.dirty = false;
  buffer.ready = nullptr;
  buffer.waited = buffer.uses = 0;
  core_.tell_whereabouts(id);
  core_.announce_change();
}

// Gets the slab and appends what the write-back has to wait for.
Status ContentMover::prepare_write_back(Buffer& buffer, std::vector<EventRef>& after) noexcept {
  try {
    Status status = ensure_slab(buffer, false);
    if (status == Status::kOk) status = streams_.resolve(buffer.host, false, after);
    // Once the write-back is enqueued, noting it may not fail.
    buffer.page->after.reserve(1);
    return status;
  } catch (const std::bad_alloc&) {
    return Status::kOutOfHostMemory;
  }
}

Status ContentMover::ensure_slab(Buffer& buffer, bool zeroed) {
  if (buffer.host.slab) return Status::kOk;
  const Bytes backing = buffer.host.backing;
  Result<Slab> slab = Status::kOutOfHostMemory;
  {
    const Unlocked unlocked(core_.mutex);
    slab = core_.host.acquire(backing, zeroed);
  }
  if (slab.ok()) buffer.host.slab = *slab;
  return slab.status();
}

Status ContentMover::renew(BufferId id, std::optional<StreamHandle> stream) {
  Buffer& buffer = core_.buffers[id];
  const EventRef freed = buffer.freed;
  if (core_.options.zero_fill) {
    std::vector<EventRef> after;
    for (const EventRef& event : {freed, buffer.ready}) {
      if (event != nullptr) after.push_back(event);
    }
    const Address window = buffer.page->window;
    const Bytes extent = buffer.page->extent;
    Transferred filled;
    {
      const Unlocked unlocked(core_.mutex);
      filled = core_.transfers.fill(window, extent, after);
    }
    buffer.page->extent =
        filled.status == Status::kOk ? Bytes{buffer.size.load()} : buffer.page->size;
    if (filled.done != nullptr || filled.status == Status::kOk) {
      // Also where it failed: part of it may still come, which the page's next owner waits for.
      buffer.ready = filled.done;
      buffer.waited = 0;
    }
    if (filled.status != Status::kOk) {
      buffer.page_is_untracked = buffer.page_is_untracked || filled.untracked;
      return filled.status;
    }
  } else if (freed != nullptr && stream) {
    const Slot slot = streams_.slot_of(*stream);
    const bool same_stream = slot == buffer.freed_on && slot != StreamTable::kShared;
    if (!same_stream) {
      const Unlocked unlocked(core_.mutex);
      const Status status = core_.events.stream_wait(*stream, {&freed, 1});
      if (status != Status::kOk) return status;
    }
  }
  buffer.freed = nullptr;
  buffer.place = Place::kIn;
  return Status::kOk;
}

}  // namespace superpipe
