// From the words of a launch to pinned, mapped, ordered buffers, and back at its end.
#include <algorithm>
#include <utility>

#include "residency/residency_impl.h"

namespace superpipe {

namespace {

constexpr std::uint64_t bit(Slot slot) { return std::uint64_t{1} << slot; }

}  // namespace

std::span<const BufferId> ResidencyManager::Impl::ids(const UseToken& token) {
  if (token.count_ > UseToken::kInline) return token.more_;
  return {token.inline_.data(), token.count_};
}

// Asked only where an event of ours could ever be recorded on the stream. An event on the legacy
// stream would break the capture of another one: the device answers for that as well.
Result<bool> ResidencyManager::Impl::is_capturing(StreamHandle stream) {
  if (!moves() || abandoned_) return false;
  return device_.is_capturing(stream);
}

bool ResidencyManager::Impl::names_arena(std::span<const std::uint64_t> words) const {
  return std::any_of(words.begin(), words.end(), [this](std::uint64_t word) {
    return word - arena_base_ < options_.arena_size.count();
  });
}

// Throws std::bad_alloc, for streams beyond those that have a slot of their own.
Slot ResidencyManager::Impl::slot_of(Lock& lock, StreamHandle stream) {
  Slot slot = streams_.slot_of(stream);
  if (slot != StreamTable::kShared) return slot;
  // All slots are taken: ask whether destroyed streams have come to their end.
  std::vector<EventRef> ends;
  for (Slot i = 0; i < StreamTable::kShared; ++i) {
    const auto& entry = streams_.entry(i);
    if (entry.retired && entry.latest != nullptr) ends.push_back(entry.latest);
  }
  if (!ends.empty()) {
    const Unlocked unlocked(lock);
    for (const EventRef& end : ends) (void)events_.is_complete(end);
  }
  if (const std::uint64_t freed = streams_.recycle(); freed != 0) {
    for (std::uint32_t i = 0; i < buffers_.end(); ++i) {
      Buffer& buffer = buffers_[BufferId{i}];
      buffer.uses &= ~freed;
      buffer.waited &= ~freed;
      // What these remember was on a stream that is gone, not on the slot's next one.
      if (buffer.freed_on < kNoSlot && (freed >> buffer.freed_on & 1) != 0) {
        buffer.freed_on = kNoSlot;
      }
      for (HostOperation& operation : buffer.host_operations) {
        if (operation.slot < kNoSlot && (freed >> operation.slot & 1) != 0) {
          operation.slot = kNoSlot;
        }
      }
    }
    slot = streams_.slot_of(stream);
  }
  // Its end may not fail: the operation has been submitted by then.
  if (slot == StreamTable::kShared) streams_.prepare_shared();
  return slot;
}

// Names each live buffer once.
void ResidencyManager::Impl::collect(std::span<const std::uint64_t> words, UseToken& token) {
  token.count_ = 0;
  const std::uint64_t mark = ++mark_;
  for (const std::uint64_t word : words) {
    const std::uint32_t index = arena_->index_at(word);
    if (index == Arena::kNobody) continue;
    Buffer& buffer = buffers_[BufferId{index}];
    if (buffer.mark == mark) continue;
    buffer.mark = mark;
    if (token.count_ < UseToken::kInline) {
      token.inline_[token.count_] = BufferId{index};
    } else {
      if (token.count_ == UseToken::kInline) {
        token.more_.assign(token.inline_.begin(), token.inline_.end());
      }
      token.more_.push_back(BufferId{index});
    }
    ++token.count_;
  }
}

// Whether nothing needs to be done for any of them but pinning.
bool ResidencyManager::Impl::all_ready(const UseToken& token, const Use& use) const {
  for (const BufferId id : ids(token)) {
    const Buffer& buffer = buffers_[id];
    if (buffer.place != Place::kIn) return false;
    if (buffer.ready != nullptr && !buffer.ready->complete.load(std::memory_order_acquire) &&
        (use.slot >= StreamTable::kShared || (buffer.waited & bit(use.slot)) == 0)) {
      return false;
    }
    if (use.capturing && !buffer.pinned_forever) return false;
  }
  return true;
}

// Keeps them where they are, or will be; rescues those that somebody was about to evict.
void ResidencyManager::Impl::pin(const UseToken& token) {
  for (const BufferId id : ids(token)) {
    Buffer& buffer = buffers_[id];
    ++buffer.pins;
    buffer.evict_ticket = 0;
  }
}

// Notes what the operation will do to them. REQUIRES: they are in: a fetch resets all of it.
void ResidencyManager::Impl::mark_used(const UseToken& token, const Use& use) {
  for (const BufferId id : ids(token)) {
    Buffer& buffer = buffers_[id];
    if (use.slot != kNoSlot) buffer.uses |= bit(use.slot);
    if (use.capturing) buffer.pinned_forever = true;
    if (use.writes) {
      buffer.dirty = true;
      buffer.fresh = false;
    }
  }
}

void ResidencyManager::Impl::unpin(const UseToken& token) {
  for (const BufferId id : ids(token)) --buffers_[id].pins;
  if (waiters_ > 0) changed();
}

Status ResidencyManager::Impl::begin_launch(KernelId kernel, std::span<const std::uint64_t> words,
                                            StreamHandle stream, UseToken& token) try {
  token.count_ = 0;
  launches_.fetch_add(1, std::memory_order_relaxed);
  if (!names_arena(words)) return Status::kOk;
  const auto capturing = is_capturing(stream);
  if (!capturing.ok()) return capturing.status();
  Lock lock(mutex_);
  Use use{words, stream, kNoSlot, true, *capturing, kernel};
  // Uses on a capturing stream are not marked by events: what it names is pinned for good.
  if (!use.capturing) use.slot = slot_of(lock, stream);
  collect(words, token);
  if (token.count_ == 0) return Status::kOk;
  stats_.accesses += token.count_;
  token.slot_ = use.slot;
  token.host_route_ = false;
  token.writes_ = true;

  if (!asks_policy_ && (!moves() || !restore_policy())) {
    if (all_ready(token, use)) {
      pin(token);
      mark_used(token, use);
      return Status::kOk;
    }
    return acquire(lock, token, use, Decision{});
  }
  const Decision decision = [&]() -> Decision {
    try {
      return policy_.on_launch(Access{kernel, ids(token)});
    } catch (const std::bad_alloc&) {
      asks_policy_ = false;  // who knows in what state it is
      return {};
    }
  }();
  if (policy_.learned().at_pass_start) [[unlikely]] {
    note_pass(lock, use);
    collect(words, token);  // the lock was open: a buffer may be gone
    if (token.count_ == 0) return Status::kOk;
  }
  refresh_limit();
  // When all fits, nothing is ever moved (I6): what policy wants evicted may stay.
  const bool advised = !decision.fetch.empty() || (!decision.evict.empty() && pressure());
  Status status = Status::kOk;
  if (!advised && device_bytes_ <= limit_ && all_ready(token, use)) {
    pin(token);
    mark_used(token, use);
  } else {
    status = acquire(lock, token, use, decision);
  }
  if (timeline_ != nullptr && status == Status::kOk) note_launch(token);
  return status;
} catch (const std::bad_alloc&) {
  token.count_ = 0;
  return Status::kOutOfHostMemory;
}

// A policy that ran out of host memory in the midst of a launch is replaced by one that has seen
// nothing yet. @return false: there is still none.
bool ResidencyManager::Impl::restore_policy() noexcept {
  try {
    PolicyEngine fresh(options_.policy);
    for (std::uint32_t i = 0; i < buffers_.end(); ++i) {
      const Buffer& buffer = buffers_[BufferId{i}];
      // Also those whose life is about to begin: kFetching and not live.
      if (buffer.live || buffer.place == Place::kFetching) {
        fresh.on_allocate(BufferId{i}, buffer.footprint);
      }
    }
    fresh.on_passthrough_bytes(reserved_);
    policy_ = std::move(fresh);
  } catch (const std::bad_alloc&) {
    return false;
  }
  asks_policy_ = true;
  refresh_limit();
  return true;
}

Status ResidencyManager::Impl::begin_use(std::span<const std::uint64_t> words, bool writes,
                                         StreamHandle stream, UseToken& token) try {
  token.count_ = 0;
  if (!names_arena(words)) return Status::kOk;
  const auto capturing = is_capturing(stream);
  if (!capturing.ok()) return capturing.status();
  Lock lock(mutex_);
  Use use{words, stream, kNoSlot, writes, *capturing, KernelId{}};
  if (!use.capturing) use.slot = slot_of(lock, stream);
  collect(words, token);
  if (token.count_ == 0) return Status::kOk;
  token.slot_ = use.slot;
  token.host_route_ = false;
  token.writes_ = writes;
  if (all_ready(token, use)) {
    pin(token);
    mark_used(token, use);
    return Status::kOk;
  }
  return acquire(lock, token, use, Decision{});
} catch (const std::bad_alloc&) {
  token.count_ = 0;
  return Status::kOutOfHostMemory;
}

// Pins what `use` names, waits until it is mapped, and orders the stream behind its fetches. On
// failure nothing is pinned, nor marked as used.
Status ResidencyManager::Impl::acquire(Lock& lock, UseToken& token, const Use& use,
                                       const Decision& decision) {
  if (abandoned_) return Status::kDeviceError;
  // Two launches that each hold pins and wait for the other's pages would wait for ever: one at a
  // time waits for room, and it pins only when its turn has come. What is mapped already needs
  // none, though it may have to be ordered behind its arrival.
  const auto named = ids(token);
  bool has_turn = decision.fetch_before_launch ||
                  std::any_of(named.begin(), named.end(),
                              [&](BufferId id) { return buffers_[id].place != Place::kIn; });
  if (has_turn && !take_turn(lock, now() + options_.wait_limit)) {
    token.count_ = 0;
    flush_warnings(lock);
    return Status::kTimedOut;
  }
  bool pinned = false;
  std::shared_ptr<StallProbe> probe;
  Status status = Status::kOk;
  try {
    if (has_turn) collect(use.words, token);  // the lock was open
    pin(token);
    pinned = true;
    probe = open_stall_probe(lock, token, use);
    status = bring_in(lock, token, use, decision);
    if (std::exchange(has_turn, false)) end_turn();
    if (status == Status::kOk) {
      status = order_behind_fetches(lock, ids(token), use, probe.get());
    }
    if (status == Status::kOk && decision.fetch_before_launch && !use.capturing) {
      // No overlap: this launch starts only behind everything that was fetched with it.
      std::vector<BufferId> in;
      for (const BufferId id : decision.fetch) {
        if (buffers_[id].live && buffers_[id].place == Place::kIn) in.push_back(id);
      }
      status = order_behind_fetches(lock, in, use, probe.get());
    }
  } catch (const std::bad_alloc&) {
    status = Status::kOutOfHostMemory;
  }
  if (status != Status::kOk && pinned) give_up_demands(token);
  if (has_turn) end_turn();
  if (probe != nullptr) probe->submitted = now();
  if (status == Status::kOk) {
    mark_used(token, use);
  } else {
    if (pinned) unpin(token);
    token.count_ = 0;
  }
  flush_warnings(lock);
  return status;
}

// Takes back what a failed operation asked for. A fetch that has begun goes on, but what becomes of
// it is nobody's business any more: least of all that of the next who names the buffer.
void ResidencyManager::Impl::give_up_demands(const UseToken& token) noexcept {
  for (const BufferId id : ids(token)) {
    Buffer& buffer = buffers_[id];
    buffer.force = false;
    buffer.fetch_status = Status::kOk;
    if (buffer.want == Want::kDemand) buffer.want = Want::kNobody;
  }
}

Status ResidencyManager::Impl::order_behind_fetches(Lock& lock, std::span<const BufferId> buffers,
                                                    const Use& use, StallProbe* probe) {
  std::vector<EventRef> fetches;
  for (const BufferId id : buffers) {
    const Buffer& buffer = buffers_[id];
    if (buffer.ready == nullptr || buffer.ready->complete.load(std::memory_order_acquire)) continue;
    const bool has_waited = use.slot < StreamTable::kShared && (buffer.waited & bit(use.slot)) != 0;
    if (!has_waited && std::find(fetches.begin(), fetches.end(), buffer.ready) == fetches.end()) {
      fetches.push_back(buffer.ready);
    }
  }
  if (fetches.empty()) return Status::kOk;
  Status status = Status::kOk;
  {
    const Unlocked unlocked(lock);
    if (use.slot == kNoSlot) {
      // No stream to order, or one that must not be touched: wait here.
      for (const EventRef& fetch : fetches) {
        if (status == Status::kOk) status = events_.wait(fetch, options_.wait_limit);
      }
    } else {
      for (const EventRef& fetch : fetches) (void)events_.is_complete(fetch);
      status = events_.stream_wait(use.stream, fetches);
    }
  }
  if (status != Status::kOk) {
    ++stats_.errors;
    return status;
  }
  for (const BufferId id : buffers) {
    Buffer& buffer = buffers_[id];
    if (buffer.ready == nullptr) continue;
    if (buffer.ready->complete.load(std::memory_order_acquire)) {
      buffer.ready = nullptr;
      buffer.waited = 0;
    } else if (use.slot < StreamTable::kShared &&
               std::find(fetches.begin(), fetches.end(), buffer.ready) != fetches.end()) {
      buffer.waited |= bit(use.slot);
    }
  }
  if (probe != nullptr) probe->fetches.insert(probe->fetches.end(), fetches.begin(), fetches.end());
  return Status::kOk;
}

// A probe that cannot be had is no reason to fail a launch.
std::shared_ptr<ResidencyManager::Impl::StallProbe> ResidencyManager::Impl::open_stall_probe(
    Lock& lock, const UseToken& token, const Use& use) try {
  if (use.slot == kNoSlot || !moves() || all_ready(token, use)) return nullptr;
  auto probe = std::make_shared<StallProbe>();
  probe->begun = now();
  {
    const Unlocked unlocked(lock);
    auto tail = events_.record(use.stream, 0);
    if (!tail.ok()) return nullptr;
    probe->tail = *tail;
  }
  probes_.push_back(probe);
  start_worker();
  work();
  return probe;
} catch (const std::bad_alloc&) {
  return nullptr;  // a figure less
}

void ResidencyManager::Impl::end_use(UseToken& token, StreamHandle stream,
                                     bool submitted) noexcept {
  if (token.count_ == 0) return;
  const bool tracked = submitted && token.slot_ != kNoSlot;
  // Host routes that were asynchronous, and streams that only their own thread can record on, get
  // their event now.
  const bool marks_host = tracked && token.host_route_ && !token.synchronous_;
  const bool marks_use = tracked && !token.host_route_ && moves() &&
                         (token.slot_ == StreamTable::kShared || stream == kPerThreadStream);
  EventRef event;
  Lock lock(mutex_);
  if (marks_host || marks_use) {
    // Uses that other threads submit to the stream from here on may or may not be covered: only
    // those up to now are. (A per-thread stream has no other threads.)
    const std::uint64_t before = seq_;
    const Unlocked unlocked(lock);
    auto recorded = events_.record_now(stream, before);
    if (recorded.ok()) event = *recorded;
  }
  const std::uint64_t seq = ++seq_;
  if ((marks_host || marks_use) && event == nullptr) ++stats_.errors;
  if (event != nullptr && stream == kPerThreadStream && token.slot_ != StreamTable::kShared) {
    event->seq = seq;  // nobody else has it yet
  }
  if (token.host_route_) {
    Buffer& buffer = buffers_[ids(token).front()];
    --buffer.host_pins;
    if (marks_host) {
      auto& operations = buffer.host_operations;
      bool writes = token.writes_;
      if (event != nullptr && token.slot_ != StreamTable::kShared) {
        // An event recorded after an earlier operation of the stream was noted does for both. One
        // that another thread recorded meanwhile may end later, and stays.
        std::erase_if(operations, [&](const HostOperation& operation) {
          const bool covered = operation.slot == token.slot_ && operation.stream == stream &&
                               operation.noted <= event->seq;
          writes = writes || (covered && operation.writes);
          return covered;
        });
      }
      operations.push_back({token.slot_, stream, writes, event, seq});
      streams_.note_use(token.slot_, stream, seq, event);
    }
    if (waiters_ > 0) changed();
    work();
  } else {
    if (tracked) {
      for (const BufferId id : ids(token)) buffers_[id].last_use = seq;
      streams_.note_use(token.slot_, stream, seq, std::move(event));
    }
    unpin(token);
  }
  token.count_ = 0;
}

void ResidencyManager::Impl::note_launch(const UseToken& token) {
  const auto time = now();
  for (const BufferId id : ids(token)) {
    const Buffer& buffer = buffers_[id];
    const bool arrived = buffer.ready == nullptr || buffer.ready->complete;
    if (arrived) timeline_->settle(id, time);
    timeline_->add_when(arrived ? nullptr : buffer.ready, Timeline::Kind::kLaunch, time, id,
                        buffer.footprint);
  }
}

// A pass begins when the device has done what was submitted before its first launch: the host may
// be passes ahead of it. A start that cannot be marked is left out, which joins two passes.
void ResidencyManager::Impl::note_pass(Lock& lock, const Use& use) noexcept {
  if (use.slot == kNoSlot) return;
  const Result<EventRef> start = [&] {
    const Unlocked unlocked(lock);
    return events_.record(use.stream, 0);
  }();
  if (!start.ok()) return;
  try {
    pass_starts_.push_back(*start);
  } catch (const std::bad_alloc&) {
    return;
  }
  start_worker();
  work();
}

}  // namespace superpipe
