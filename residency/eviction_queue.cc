#include "residency/eviction_queue.h"

#include <new>
#include <utility>

namespace superpipe {

// `events` gets what an eviction would wait for, `to_record` the slots whose ends are to be marked.
EvictionQueue::Coverage EvictionQueue::coverage_of(const Buffer& buffer,
                                                   std::vector<EventRef>& events,
                                                   std::uint64_t& to_record) const {
  Coverage coverage = Coverage::kComplete;
  for (Slot slot = 0; slot <= StreamTable::kShared; ++slot) {
    if ((buffer.uses >> slot & 1) == 0) continue;
    if (core_.streams.covered(slot, buffer.last_use, events)) continue;
    if (core_.streams.ending(slot)) return Coverage::kEnding;
    if (!core_.streams.recordable(slot)) {
      coverage = Coverage::kImpossible;
      continue;
    }
    to_record |= std::uint64_t{1} << slot;
    if (coverage == Coverage::kComplete) coverage = Coverage::kRecordable;
  }
  return coverage;
}

Bytes EvictionQueue::request(std::span<const BufferId> victims) {
  std::vector<WantedBuffer> chosen;
  std::uint64_t to_record = 0;
  std::vector<EventRef> events;
  for (const BufferId id : victims) {
    if (index_of(id) >= core_.buffers.end() || !may_go(core_.buffers[id])) continue;
    Buffer& buffer = core_.buffers[id];
    const Coverage coverage = coverage_of(buffer, events, to_record);
    if (coverage == Coverage::kComplete || coverage == Coverage::kRecordable) {
      chosen.push_back({id, buffer.generation});
    } else if (coverage == Coverage::kImpossible) {
      buffer.evict_failed = core_.turns;
    }
  }
  if (chosen.empty()) return Bytes{};

  const std::uint64_t seq = core_.seq;
  if (to_record != 0) streams_.mark_ends(to_record);

  Bytes requested;
  for (const WantedBuffer& victim : chosen) {
    try {
      requested += queue(victim, seq);
    } catch (const std::bad_alloc&) {
      if (requested == Bytes{}) throw;
      break;  // the evictions that were queued free some bytes already
    }
  }
  if (requested > Bytes{}) core_.wake_worker();
  return requested;
}

// Queues one eviction, unless the buffer was used or moved since `seq`. @return its bytes.
Bytes EvictionQueue::queue(const WantedBuffer& victim, std::uint64_t seq) {
  Buffer& buffer = core_.buffers[victim.id];
  if (buffer.generation != victim.generation || !may_go(buffer) || buffer.last_use > seq) {
    return Bytes{};
  }
  Eviction eviction{victim.id, victim.generation, ++tickets_, buffer.last_use, {}, core_.now()};
  std::uint64_t to_record = 0;
  const Coverage coverage = coverage_of(buffer, eviction.events, to_record);
  if (coverage != Coverage::kComplete) {
    if (coverage != Coverage::kEnding) buffer.evict_failed = core_.turns;
    return Bytes{};
  }
  // A buffer that was fetched and never used has to arrive before it can go.
  if (buffer.ready != nullptr) eviction.events.push_back(buffer.ready);
  pending_.push_back(std::move(eviction));
  buffer.evict_ticket = tickets_;
  core_.ledger.promise(buffer.footprint);
  core_.tell_whereabouts(victim.id);
  return buffer.footprint;
}

namespace {

/// Buffers that may be looked at in vain for what is not urgent: launches wait for the mutex.
constexpr int kMostRefused = 256;

}  // namespace

EvictionQueue::Choice EvictionQueue::choose(AutoPolicy& policy, std::uint64_t launch, Bytes needed,
                                            Waiting waiting) const {
  Choice choice;
  int refused = 0;
  policy.visit_victims(launch, [&](BufferId id) NO_THREAD_SAFETY_ANALYSIS {
    const Buffer& buffer = core_.buffers[id];
    const bool can_go =
        may_go(buffer) && (waiting == Waiting::kAllowed || completion_.is_over(buffer));
    if (!can_go) return waiting == Waiting::kAllowed || ++refused < kMostRefused;
    choice.victims.push_back(id);
    choice.bytes += buffer.footprint;
    return choice.bytes < needed;
  });
  return choice;
}

Bytes EvictionQueue::request_bytes_used_after(std::uint64_t launch, Bytes needed) {
  AutoPolicy* const puller = core_.puller();
  if (puller == nullptr) return Bytes{};
  const Choice choice = choose(*puller, launch, needed, Waiting::kNone);
  return choice.bytes < needed ? Bytes{} : request(choice.victims);
}

Bytes EvictionQueue::request_bytes(Bytes needed) {
  core_.must_evict = true;
  if (core_.policy.puller() != nullptr) completion_.advance();
  if (AutoPolicy* const puller = core_.puller()) {
    Choice choice = choose(*puller, puller->present(), needed, Waiting::kNone);
    if (choice.bytes < needed) {
      choice = choose(*puller, puller->present(), needed, Waiting::kAllowed);
    }
    const Bytes requested = request(choice.victims);
    if (requested > Bytes{}) return requested;
  }
  std::vector<BufferId> candidates;
  for (std::uint32_t i = 0; i < core_.buffers.end(); ++i) {
    if (may_go(core_.buffers[BufferId{i}])) candidates.push_back(BufferId{i});
  }
  if (candidates.empty()) return Bytes{};
  if (core_.moves && !core_.may_ask_policy()) throw std::bad_alloc();
  return request(core_.policy.choose_victims(candidates, needed));
}

bool EvictionQueue::is_void(const Eviction& eviction) const {
  const Buffer& buffer = core_.buffers[eviction.id];
  return buffer.generation != eviction.generation || buffer.evict_ticket != eviction.ticket ||
         buffer.place != Place::kIn || buffer.pins > 0 || buffer.pinned_forever ||
         buffer.last_use > eviction.seq;
}

std::optional<BufferId> EvictionQueue::take_next() {
  for (auto it = pending_.begin(); it != pending_.end();) {
    Result<bool> complete = false;
    if (!is_void(*it)) {
      // The list keeps the element where it is: only the worker removes.
      const Unlocked unlocked(core_.mutex);
      complete = core_.events.all_complete(it->events);
    }
    const bool expired = core_.now() - it->since > core_.options.wait_limit;
    const bool dropped = is_void(*it) || !complete.ok() || (!*complete && expired);
    if (!dropped && !*complete) {
      ++it;
      continue;
    }
    const BufferId id = it->id;
    Buffer& buffer = core_.buffers[id];
    const bool is_its_ticket =
        buffer.generation == it->generation && buffer.evict_ticket == it->ticket;
    if (is_its_ticket) spend_ticket(buffer);
    pending_.erase(it++);
    if (!dropped) return id;
    if (is_its_ticket) core_.tell_whereabouts(id);
    if (!complete.ok()) {
      ++core_.counters.errors;
      if (is_its_ticket) buffer.evict_failed = core_.turns;
    }
    core_.announce_change();
  }
  return std::nullopt;
}

}  // namespace superpipe
