// The worker: takes buffers out when their last use is over, brings others in when there is room.
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "residency/residency_impl.h"

namespace superpipe {

namespace {

/// How long the worker rests when all it has is events to ask for: short at first, for the sake of
/// the link, then longer, for the sake of the program's own threads.
constexpr std::chrono::microseconds kShortestRest{20};
constexpr std::chrono::microseconds kLongestRest{200};

}  // namespace

void ResidencyManager::Impl::start_worker() noexcept {
  if (!options_.worker_thread || worker_.joinable() || stop_ || abandoned_) return;
  // The program's signal handlers are not to run on a thread of ours.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    worker_ = std::thread([this] { worker_main(); });
  } catch (const std::exception&) {  // no thread, or no host memory
    ++stats_.errors;  // tried again at the next request; those who wait run into their limit
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void ResidencyManager::Impl::worker_main() {
  {
    Lock lock(mutex_);
    auto rest = kShortestRest;
    while (!stop_ && !abandoned_) {
      if (step(lock)) {
        rest = kShortestRest;
        flush_warnings(lock);
      } else if (work_pending()) {
        work_cv_.wait_for(lock, rest);
        rest = std::min(rest * 5 / 4, kLongestRest);
      } else {
        work_cv_.wait_for(lock, passthrough_.until_due(now()));
        rest = kShortestRest;
      }
    }
  }
  worker_exited_ = true;
}

bool ResidencyManager::Impl::work_pending() const {
  return !demands_.empty() || !prefetches_.empty() || !evictions_.empty() || !probes_.empty() ||
         !pass_starts_.empty() || (timeline_ != nullptr && timeline_->waits()) ||
         (excess() > Bytes{} && (!pool_->empty() || cached_bytes_ > Bytes{}));
}

bool ResidencyManager::Impl::run_worker_once() {
  Lock lock(mutex_);
  const bool worked = step(lock);
  flush_warnings(lock);
  return worked;
}

// One round: whatever can be done without waiting. Fetches first, so that a page that came free is
// filled before the next one is freed. @return whether anything was done.
bool ResidencyManager::Impl::step(Lock& lock) noexcept {
  bool worked = poll(lock);
  if (passthrough_.is_due(now())) worked = sample_passthrough(lock) || worked;
  if (excess() > Bytes{}) worked = relieve(lock) || worked;
  if (fetch_next(lock)) return true;
  return evict_next(lock) || worked;
}

// Gets the pages back within the limit. @return whether anything was done.
bool ResidencyManager::Impl::relieve(Lock& lock) noexcept {
  if (reclaim_one(lock)) return true;
  try {
    return enforce_limit(lock);
  } catch (const std::bad_alloc&) {
    return false;
  }
}

// What only statistics need: without host memory it is seen to later, or left out.
bool ResidencyManager::Impl::poll(Lock& lock) noexcept {
  try {
    bool worked = poll_probes(lock);
    worked = poll_passes(lock) || worked;
    if (timeline_ != nullptr) worked = poll_timeline(lock) || worked;
    return worked;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

// Demands in order; prefetches only when no demand is left.
bool ResidencyManager::Impl::fetch_next(Lock& lock) {
  for (const Want want : {Want::kDemand, Want::kPrefetch}) {
    auto& queue = want == Want::kDemand ? demands_ : prefetches_;
    while (!queue.empty()) {
      const WantedFetch wanted = queue.front();
      Buffer& buffer = buffers_[wanted.id];
      const bool stale = buffer.generation != wanted.generation || buffer.want != want;
      if (stale || buffer.place != Place::kOut) {
        if (!stale) buffer.want = Want::kNobody;
        queue.pop_front();
        changed();
        continue;
      }
      // Somebody is copying into or out of its slab at this moment; not for long.
      if (buffer.host_pins > 0 || buffer.slab_busy) return false;
      return run_fetch(lock, wanted.id, want == Want::kDemand);
    }
  }
  return false;
}

// @return false if the buffer has to wait for a page.
bool ResidencyManager::Impl::run_fetch(Lock& lock, BufferId id, bool demand) {
  Buffer& buffer = buffers_[id];
  buffer.place = Place::kFetching;
  Status status = Status::kOk;
  if (buffer.page) {
    // Its eviction failed half-way: the page still has the only valid content.
    {
      const Unlocked unlocked(lock);
      status = device_.map(buffer.base.load(), buffer.footprint, buffer.page->handle);
    }
    buffer.place = status == Status::kOk ? Place::kIn : Place::kOut;
    if (status != Status::kOk) ++stats_.errors;
  } else {
    auto page = acquire_page(lock, buffer.footprint, buffer.force);
    if (page.status() == Status::kTimedOut && !page.ok()) {
      buffer.place = Place::kOut;
      changed();
      const bool hopeless = coming() == Bytes{};
      if (!demand && hopeless) buffer.want = Want::kNobody;  // it will be demanded
      return !demand && hopeless;
    }
    const bool copies = !buffer.fresh;
    status = page.ok() ? attach(lock, id, std::move(*page)) : page.status();
    if (status == Status::kOk && copies) {
      stats_.h2d_bytes += Bytes{buffer.size.load()};
      // A launch that came to wait for it meanwhile has made it a demand.
      ++(demand || buffer.want == Want::kDemand ? stats_.demand_fetches : stats_.prefetches);
    }
    if (!page.ok()) buffer.place = Place::kOut;
  }
  if (status != Status::kOk && buffer.want == Want::kDemand) buffer.fetch_status = status;
  buffer.want = Want::kNobody;
  buffer.force = false;
  changed();
  return true;
}

// Fills `page` with the buffer's content and maps it: kFetching to kIn, or back to kOut.
Status ResidencyManager::Impl::attach(Lock& lock, BufferId id, Page page) noexcept {
  Buffer& buffer = buffers_[id];
  const bool fresh = buffer.fresh;
  const Bytes size{buffer.size.load()};
  const auto begun = now();
  std::vector<EventRef> after = std::exchange(page.after, {});
  const EventRef vacated = after.empty() ? nullptr : after.front();
  Status prepared = Status::kOk;
  try {
    // Room for what a transfer that fails half-way leaves: afterwards nothing may be in want.
    after.reserve(after.size() + 1);
    if (!fresh) {
      buffer.host_operations.reserve(buffer.host_operations.size() + 1);
      if (buffer.write_back != nullptr) after.push_back(buffer.write_back);
      prepared = resolve_host_operations(lock, buffer, true, after);
    }
  } catch (const std::bad_alloc&) {
    prepared = Status::kOutOfHostMemory;
  }
  if (prepared != Status::kOk) {
    page.after = std::move(after);
    pool_->put(std::move(page));
    buffer.place = Place::kOut;
    ++stats_.errors;
    return prepared;
  }
  Transferred filled;
  Status status = Status::kOk;
  {
    const Unlocked unlocked(lock);
    if (!fresh) {
      const Bytes zero_to = options_.zero_fill ? page.extent : Bytes{};
      filled = transfers_.fetch(page.window, buffer.slab, size, zero_to, after);
    } else if (options_.zero_fill) {
      filled = transfers_.fill(page.window, page.extent, after);
    } else if (after.size() == 1) {
      filled.done = after.front();
    } else if (!after.empty()) {
      filled = transfers_.fill(page.window, Bytes{}, after);
    }
    status = filled.status;
    if (status == Status::kOk) {
      status = device_.map(buffer.base.load(), buffer.footprint, page.handle);
    }
  }
  if (status == Status::kOk) {
    page.extent = options_.zero_fill ? size : page.size;
    buffer.page = std::move(page);
    buffer.place = Place::kIn;
    buffer.ready = filled.done;
    if (timeline_ != nullptr) {
      // Until its page's former content is copied out, the fetch has only been asked for.
      timeline_->add_when(vacated, Timeline::Kind::kFetchBegin, begun, id, buffer.footprint);
      timeline_->add_when(filled.done, Timeline::Kind::kFetchEnd, now(), id, buffer.footprint);
    }
    buffer.waited = buffer.uses = 0;
    buffer.dirty = false;
    if (!fresh) {
      std::erase_if(buffer.host_operations, [](const HostOperation& op) { return op.writes; });
    }
    return Status::kOk;
  }
  ++stats_.errors;
  page.extent = page.size;
  if (filled.untracked) {
    buffer.slab_untracked = buffer.slab_untracked || !fresh;
    pool_->lose(std::move(page));
  } else {
    if (filled.done != nullptr) {
      after.assign(1, filled.done);
      // The transfer still reads the slab.
      if (!fresh)
        buffer.host_operations.push_back({kNoSlot, StreamHandle{}, false, filled.done, 0});
    }
    page.after = std::move(after);
    pool_->put(std::move(page));
  }
  buffer.place = Place::kOut;
  return status;
}

// Carries out one eviction whose last uses have completed.
bool ResidencyManager::Impl::evict_next(Lock& lock) {
  for (auto it = evictions_.begin(); it != evictions_.end();) {
    Buffer& buffer = buffers_[it->id];
    const auto revoked = [&] {
      return buffer.generation != it->generation || buffer.evict_ticket != it->ticket ||
             buffer.place != Place::kIn || buffer.pins > 0 || buffer.pinned_forever ||
             buffer.last_use > it->seq;
    };
    Result<bool> complete = false;
    if (!revoked()) {
      // The list keeps the element where it is: only the worker removes.
      const Unlocked unlocked(lock);
      complete = events_.all_complete(it->events);
    }
    const bool expired = now() - it->since > options_.wait_limit;
    if (revoked() || !complete.ok() || (!*complete && expired)) {
      if (buffer.generation == it->generation && buffer.evict_ticket == it->ticket) {
        buffer.evict_ticket = 0;
      }
      if (!complete.ok()) {
        ++stats_.errors;
        buffer.evict_failed = turns_;
      }
      it = evictions_.erase(it);
      changed();
      continue;
    }
    if (!*complete) {
      ++it;
      continue;
    }
    const Eviction eviction = std::move(*it);
    evictions_.erase(it);
    run_eviction(lock, eviction);
    return true;
  }
  return false;
}

// kIn to kOut: unmap first, then copy (I2). Whatever fails, the newest content stays somewhere
// (I3).
void ResidencyManager::Impl::run_eviction(Lock& lock, const Eviction& eviction) noexcept {
  Buffer& buffer = buffers_[eviction.id];
  const Bytes footprint = buffer.footprint;
  const Bytes size{buffer.size.load()};
  const bool writes_back = buffer.dirty && !buffer.fresh;
  buffer.place = Place::kEvicting;
  buffer.evict_ticket = 0;
  const auto begun = now();
  evicting_bytes_ += footprint;
  Status status = Status::kOk;
  std::vector<EventRef> after;
  if (writes_back) {
    status = ensure_slab(lock, buffer, false);
    if (status == Status::kOk) status = resolve_host_operations(lock, buffer, false, after);
    try {
      buffer.page->after.reserve(1);  // for the write-back, which may not fail once it is enqueued
    } catch (const std::bad_alloc&) {
      status = Status::kOutOfHostMemory;
    }
  }
  Transferred written;
  bool mapped = true;
  if (status == Status::kOk) {
    const Unlocked unlocked(lock);
    status = device_.unmap(buffer.base.load(), footprint);
    mapped = status != Status::kOk;
    if (!mapped && writes_back) {
      written = transfers_.write_back(buffer.page->window, buffer.slab, size, after);
      status = written.status;
      if (status != Status::kOk) {
        mapped = device_.map(buffer.base.load(), footprint, buffer.page->handle) == Status::kOk;
      }
    }
  }
  evicting_bytes_ -= footprint;
  if (status != Status::kOk) {
    // The page keeps the content: back in place, or, if it cannot even be mapped, out with its
    // page.
    ++stats_.errors;
    buffer.place = mapped ? Place::kIn : Place::kOut;
    buffer.evict_failed = turns_;
    buffer.quarantined = buffer.quarantined || written.untracked;
    if (written.done != nullptr) buffer.write_back = written.done;
    changed();
    return;
  }
  if (timeline_ != nullptr) {
    timeline_->settle(eviction.id, begun);
    timeline_->add(Timeline::Kind::kEvictBegin, begun, eviction.id, footprint);
    timeline_->add_when(written.done, Timeline::Kind::kEvictEnd, now(), eviction.id, footprint);
  }
  if (writes_back) {
    buffer.write_back = written.done;
    buffer.host_operations.clear();  // the write-back comes after them
    buffer.page->after.assign(1, written.done);
    stats_.d2h_bytes += size;
    ++stats_.write_backs;
  } else {
    ++stats_.clean_evictions;
  }
  pool_->put(*std::exchange(buffer.page, std::nullopt));
  buffer.place = Place::kOut;
  buffer.dirty = false;
  buffer.ready = nullptr;
  buffer.waited = buffer.uses = 0;
  changed();
}

// Appends what marks the ends of operations on the host copy that are pending, those included that
// come while the lock is open; kFetching and kEvicting admit none.
Status ResidencyManager::Impl::resolve_host_operations(Lock& lock, Buffer& buffer, bool writes_only,
                                                       std::vector<EventRef>& events) noexcept {
  try {
    events.reserve(events.size() + buffer.host_operations.size());
    std::vector<std::uint64_t> resolved;
    resolved.reserve(buffer.host_operations.size());
    for (;;) {
      // Looked for anew each time: while the lock is open, end_use() of an operation with a host
      // route and the end of a stream change the list.
      const auto found = std::find_if(buffer.host_operations.begin(), buffer.host_operations.end(),
                                      [&](const HostOperation& operation) {
                                        return std::find(resolved.begin(), resolved.end(),
                                                         operation.noted) == resolved.end();
                                      });
      if (found == buffer.host_operations.end()) return Status::kOk;
      const HostOperation operation = *found;
      resolved.push_back(operation.noted);
      if (writes_only && !operation.writes) continue;
      if (operation.done != nullptr) {
        events.push_back(operation.done);
        continue;
      }
      // Its event could not be had at the time; a later one of that stream will do.
      if (operation.slot == kNoSlot) continue;  // the stream is gone, when all of it was over
      auto& entry = streams_.entry(operation.slot);
      const bool shared = operation.slot == StreamTable::kShared;
      if (!shared && entry.latest != nullptr && entry.latest->seq >= operation.noted) {
        events.push_back(entry.latest);
        continue;
      }
      // Another thread may record on neither a per-thread stream nor one that is destroyed.
      const bool gone = shared ? operation.stream == StreamHandle{} : entry.retired;
      if (gone || operation.stream == kPerThreadStream) return Status::kDeviceError;
      const std::uint64_t seq = seq_;
      EventRef end;
      Status status = Status::kDeviceError;
      ++entry.visitors;
      {
        const Unlocked unlocked(lock);
        const auto capturing = is_capturing(operation.stream);
        if (capturing.ok() && !*capturing) {
          auto recorded = events_.record(operation.stream, seq);
          status = recorded.status();
          if (recorded.ok()) end = std::move(*recorded);
        }
      }
      --entry.visitors;
      if (waiters_ > 0) changed();
      if (end == nullptr) return status;
      if (!shared) streams_.note_event(operation.slot, end);
      events.push_back(std::move(end));
    }
  } catch (const std::bad_alloc&) {
    return Status::kOutOfHostMemory;
  }
}

// Gets the buffer its slab, if it has none. REQUIRES: kEvicting, or slab_busy set by the caller.
Status ResidencyManager::Impl::ensure_slab(Lock& lock, Buffer& buffer, bool zeroed) {
  if (buffer.slab) return Status::kOk;
  Result<Slab> slab = Status::kOutOfHostMemory;
  {
    const Unlocked unlocked(lock);
    slab = host_.acquire(buffer.backing, zeroed);
  }
  if (!slab.ok()) {
    ++stats_.errors;
    return slab.status();
  }
  buffer.slab = *slab;
  return Status::kOk;
}

bool ResidencyManager::Impl::poll_timeline(Lock& lock) {
  const std::vector<EventRef> awaited = timeline_->awaited();
  std::vector<EventRef> lost;
  {
    const Unlocked unlocked(lock);
    for (const EventRef& event : awaited) {
      if (!events_.is_complete(event).ok()) lost.push_back(event);
    }
  }
  timeline_->forget(lost);
  return timeline_->settle(now());
}

// The time from one pass start that the device reached to the next.
bool ResidencyManager::Impl::poll_passes(Lock& lock) {
  bool worked = false;
  while (!pass_starts_.empty()) {
    const EventRef start = pass_starts_.front();
    Result<bool> complete = false;
    {
      const Unlocked unlocked(lock);
      complete = events_.is_complete(start);
    }
    if (complete.ok() && !*complete) break;
    pass_starts_.pop_front();
    worked = true;
    if (!complete.ok()) continue;
    const auto time = now();
    if (pass_start_) {
      stats_.pass_ms.push_back(
          std::chrono::duration<double, std::milli>(time - *pass_start_).count());
    }
    pass_start_ = time;
  }
  return worked;
}

bool ResidencyManager::Impl::poll_probes(Lock& lock) {
  if (probes_.empty()) return false;
  bool worked = false;
  for (auto it = probes_.begin(); it != probes_.end();) {
    const std::shared_ptr<StallProbe> probe = *it;
    const bool submitted = probe->submitted.has_value();
    const std::vector<EventRef> fetches = submitted ? probe->fetches : std::vector<EventRef>{};
    Result<bool> stream_ready = true;
    Result<bool> fetched = false;
    {
      const Unlocked unlocked(lock);
      if (!probe->stream_ready) stream_ready = events_.is_complete(probe->tail);
      if (submitted) fetched = events_.all_complete(fetches);
    }
    const auto time = now();
    if (!probe->stream_ready && stream_ready.ok() && *stream_ready) probe->stream_ready = time;
    const bool failed = !stream_ready.ok() || !fetched.ok();
    if (!failed && !*fetched) {
      ++it;
      continue;
    }
    if (!failed && probe->stream_ready) {
      const auto ready = fetches.empty() ? *probe->submitted : time;
      const auto stall = ready - std::max(probe->begun, *probe->stream_ready);
      const double ms = std::chrono::duration<double, std::milli>(stall).count();
      stats_.stall_ms += std::max(0.0, ms);
    }
    it = probes_.erase(it);
    worked = true;
  }
  return worked;
}

}  // namespace superpipe
