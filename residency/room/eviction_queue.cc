#include "residency/room/eviction_queue.h"

#include <algorithm>
#include <new>
#include <utility>

#include "residency/tuning.h"

namespace superpipe {

// `events` gets what an eviction would wait for, `to_record` the slots whose ends are to be marked.
EvictionQueue::Coverage EvictionQueue::coverage_of(const Buffer& buffer,
                                                   std::vector<EventRef>& events,
                                                   std::uint64_t& to_record) const {
  Coverage coverage = Coverage::kComplete;
  for (Slot slot = 0; slot <= StreamTable::kShared; ++slot) {
    if ((buffer.uses >> slot & 1) == 0) continue;
    if (streams_.covered(buffer, slot, events)) continue;
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
  return request(victims, Bytes{~std::uint64_t{0}});
}

Bytes EvictionQueue::request(std::span<const BufferId> victims, Bytes needed) {
  Choice choice;
  for (const BufferId id : victims) {
    if (choice.bytes >= needed) break;
    if (index_of(id) < core_.buffers.end() && may_go(core_.buffers[id])) {
      PagesLacking any{Bytes{}};
      add_pieces(id, any, needed, choice);
    }
  }
  return request(choice.victims);
}

Bytes EvictionQueue::request(std::span<const PieceId> victims) {
  std::vector<Victim> chosen;
  std::uint64_t to_record = 0;
  std::vector<EventRef> events;
  for (const PieceId id : victims) {
    Buffer& buffer = core_.buffers[id.buffer];
    const Coverage coverage = coverage_of(buffer, events, to_record);
    if (coverage == Coverage::kComplete || coverage == Coverage::kRecordable) {
      chosen.push_back({id, buffer.generation});
    } else if (coverage == Coverage::kImpossible) {
      buffer.pieces[id.index].evict_failed = core_.turns;
    }
  }
  if (chosen.empty()) return Bytes{};

  const std::uint64_t seq = core_.seq;
  if (to_record != 0) streams_.mark_ends(to_record);

  Bytes requested;
  for (const Victim& victim : chosen) {
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
Bytes EvictionQueue::queue(const Victim& victim, std::uint64_t seq) {
  Buffer& buffer = core_.buffers[victim.piece.buffer];
  if (buffer.generation != victim.generation || !may_go(buffer) || buffer.last_use > seq) {
    return Bytes{};
  }
  Piece& piece = buffer.pieces[victim.piece.index];
  if (!may_go(piece)) return Bytes{};
  Eviction eviction{victim, ++tickets_, buffer.last_use, {}, core_.now()};
  std::uint64_t to_record = 0;
  const Coverage coverage = coverage_of(buffer, eviction.events, to_record);
  if (coverage != Coverage::kComplete) {
    if (coverage != Coverage::kEnding) piece.evict_failed = core_.turns;
    return Bytes{};
  }
  // A piece that was fetched and never used has to arrive before it can go.
  if (piece.ready != nullptr) eviction.events.push_back(piece.ready);
  const bool is_over =
      std::ranges::all_of(eviction.events, [](const EventRef& event) { return event->is_known(); });
  pending_.push_back(std::move(eviction));
  piece.evict_ticket = tickets_;
  ++buffer.evictions_requested;
  const Bytes bytes = buffer.bytes_of(victim.piece.index);
  core_.ledger.promise(bytes);
  core_.tell_vacating(victim.piece, is_over && !buffer.lacks_slab_for(victim.piece.index));
  core_.tell_whereabouts(victim.piece);
  return bytes;
}

bool EvictionQueue::has_victim(const Buffer& buffer, const PagesLacking& pages) const {
  if (!may_go(buffer)) return false;
  for (std::uint32_t piece = 0; piece < buffer.pieces.size(); ++piece) {
    if (pages.includes(buffer.bytes_of(piece)) && may_go(buffer.pieces[piece])) return true;
  }
  return false;
}

void EvictionQueue::spend_ticket(PieceId id) {
  Buffer& buffer = core_.buffers[id.buffer];
  core_.ledger.withdraw(buffer.bytes_of(id.index));
  core_.tell_vacating(id, false);
  buffer.pieces[id.index].evict_ticket = 0;
  --buffer.evictions_requested;
}

void EvictionQueue::revoke_all(BufferId id) {
  const auto pieces = static_cast<std::uint32_t>(core_.buffers[id].pieces.size());
  for (std::uint32_t piece = 0; piece < pieces; ++piece) {
    if (core_.buffers[id].pieces[piece].evict_ticket == 0) continue;
    spend_ticket({id, piece});
    core_.tell_whereabouts(PieceId{id, piece});
  }
}

namespace {

// How far ahead of `present` a launch is, as a share of `furthest`.
double share_of(std::uint64_t launch, std::uint64_t furthest, std::uint64_t present) {
  if (furthest == LaunchReplay::kNever) return launch == LaunchReplay::kNever ? 1 : 0;
  return static_cast<double>(launch - present) / static_cast<double>(furthest - present);
}

// A buffer that goes though it is needed sooner crosses the link more often, by as much as it is
// needed sooner. So the slower the link, the sooner it is worthwhile to pin a slab instead. `link`:
// bytes a second; 0: not known.
double least_share_for_slab(double link) {
  return link > 0 ? std::max(tuning::kVictimShareForSlab, 1 - link / tuning::kPinning)
                  : tuning::kVictimShareForSlab;
}

}  // namespace

// Adds the pieces of a buffer that may go, the last ones first: what is brought first goes last.
void EvictionQueue::add_pieces(BufferId id, PagesLacking& pages, Bytes needed,
                               Choice& choice) const {
  const Buffer& buffer = core_.buffers[id];
  for (auto piece = static_cast<std::uint32_t>(buffer.pieces.size()); piece-- > 0;) {
    if (choice.bytes >= needed) return;
    const Bytes bytes = buffer.bytes_of(piece);
    if (!pages.includes(bytes) || !may_go(buffer.pieces[piece])) continue;
    choice.victims.push_back({id, piece});
    choice.bytes += bytes;
    pages.take(bytes, bytes);
  }
}

// What is lacking of `pages` besides those that are idle, or promised by evictions.
PagesLacking EvictionQueue::still_lacking(const PagesLacking& pages) const {
  PagesLacking lacking = pages;
  if (!pages.is_bounded()) return lacking;
  pages.for_each_size([&](Bytes size) NO_THREAD_SAFETY_ANALYSIS {
    lacking.take(size, core_.pool->idle_bytes_of(size));
  });
  for (const Eviction& eviction : pending_) {
    if (!holds_its_ticket(eviction)) continue;
    const PieceId id = eviction.victim.piece;
    const Bytes bytes = core_.buffers[id.buffer].bytes_of(id.index);
    lacking.take(bytes, bytes);
  }
  return lacking;
}

// To write a buffer back for the first time, its slab has to be pinned, which takes several times
// as long as the copy. So of those that are needed about as late, buffers that have a slab go
// first. Where pages of some sizes are lacking, only those go: to make a page of another size takes
// less time than to pin a slab for one of the right size.
EvictionQueue::Choice EvictionQueue::choose(AutoPolicy& policy, const Terms& terms, Bytes needed) {
  Choice choice;
  PagesLacking pages = still_lacking(terms.pages);
  PagesLacking largest = pages;
  largest.keep_largest();
  // Plain last use has only its order to go by.
  if (!policy.foresees()) pages.keep_largest();
  bool only_largest = terms.pages.is_any() || !policy.foresees();
  std::size_t candidates = 0;
  awaits_victims_ = false;
  std::vector<BufferId> costly;
  const double share_for_slab = least_share_for_slab(core_.link_speed());
  std::uint64_t furthest = 0;
  int refused = 0;
  int immovable = 0;
  policy.visit_victims(terms.launch, [&](BufferId id) NO_THREAD_SAFETY_ANALYSIS {
    const Buffer& buffer = core_.buffers[id];
    if (buffer.stays) return terms.may_wait || ++immovable < tuning::kVictimsImmovable;
    if (may_go(buffer) && (terms.may_wait || completion_.is_over(buffer))) {
      const std::uint64_t next_use = policy.next_use(id);
      if (furthest == 0) furthest = next_use;
      const double share = share_of(next_use, furthest, policy.present());
      if (!costly.empty() && share < share_for_slab) return false;
      if (!terms.pages.is_any() && share < tuning::kVictimShareForSize) return false;
      ++candidates;
      if (!only_largest && candidates > tuning::kVictimsForSize) {
        only_largest = true;
        pages.keep_largest();
      }
      if (buffer.host.has_home() || buffer.fresh) {
        add_pieces(id, pages, needed, choice);
      } else if (!terms.may_pin) {
        return ++refused < tuning::kVictimsRefused;
      } else if (has_victim(buffer, largest)) {
        costly.push_back(id);
      }
      return choice.bytes < needed && costly.size() < tuning::kVictimsCompared;
    }
    const bool is_eligible =
        may_go(buffer) && (terms.may_pin || buffer.host.has_home() || buffer.fresh);
    awaits_victims_ = awaits_victims_ || (is_eligible && completion_.is_awaited(buffer));
    // What may wait is urgent: all are looked at.
    return terms.may_wait || ++refused < tuning::kVictimsRefused;
  });
  pages.keep_largest();
  for (const BufferId id : costly) add_pieces(id, pages, needed, choice);
  return choice;
}

Bytes EvictionQueue::request_bytes_used_after(const AutoPolicy::Target& target, Bytes needed,
                                              Bytes size) {
  AutoPolicy* const puller = core_.puller();
  if (puller == nullptr) return Bytes{};
  for (const Bytes only : {size, Bytes{}}) {
    const Choice choice =
        choose(*puller, {target.keeps_to, false, {only}, !target.is_supposed}, needed);
    if (choice.bytes >= needed) return request(choice.victims);
  }
  return Bytes{};
}

Bytes EvictionQueue::request_bytes_at_once(Bytes needed, const PagesLacking& pages) {
  core_.must_evict = true;
  completion_.advance();
  AutoPolicy* const puller = core_.puller();
  if (puller == nullptr) return Bytes{};
  Choice choice = choose(*puller, {puller->present(), false, pages}, needed);
  if (choice.bytes < needed)
    choice = choose(*puller, {puller->present(), false, {Bytes{}}}, needed);
  return request(choice.victims);
}

Bytes EvictionQueue::request_bytes(Bytes needed, const PagesLacking& pages) {
  if (!core_.moves) return Bytes{};  // hooks rely on it: then they tell nothing
  core_.must_evict = true;
  if (core_.policy.puller() != nullptr) {
    Bytes requested = request_bytes_at_once(needed, pages);
    AutoPolicy* const puller = core_.puller();
    if (requested == Bytes{} && puller != nullptr) {
      const std::uint64_t present = puller->present();
      Choice choice = choose(*puller, {present, true, pages}, needed);
      if (choice.bytes < needed) choice = choose(*puller, {present, true, {Bytes{}}}, needed);
      requested = request(choice.victims);
    }
    if (requested > Bytes{}) return requested;
  }
  std::vector<BufferId> candidates;
  for (std::uint32_t i = 0; i < core_.buffers.end(); ++i) {
    if (has_victim(core_.buffers[BufferId{i}], Bytes{})) candidates.push_back(BufferId{i});
  }
  if (candidates.empty()) return Bytes{};
  if (core_.moves && !core_.may_ask_policy()) throw std::bad_alloc();
  return request(core_.policy.choose_victims(candidates, needed), needed);
}

bool EvictionQueue::holds_its_ticket(const Eviction& eviction) const {
  const Buffer& buffer = core_.buffers[eviction.victim.piece.buffer];
  return buffer.generation == eviction.victim.generation &&
         buffer.pieces[eviction.victim.piece.index].evict_ticket == eviction.ticket;
}

bool EvictionQueue::is_void(const Eviction& eviction) const {
  if (!holds_its_ticket(eviction)) return true;
  const Buffer& buffer = core_.buffers[eviction.victim.piece.buffer];
  return !buffer.pieces[eviction.victim.piece.index].is_in() || buffer.pins > 0 ||
         buffer.pinned_forever || buffer.stays || buffer.last_use > eviction.seq;
}

// Whether the content of a piece can be written back, if it has to be: there is a slab, or none can
// be had, which the eviction then finds; and the program does not work on it. Of a fresh piece a
// digest tells whether it has to be. `refused`: the least
// size of which there is no slab at this moment.
bool EvictionQueue::can_write_back(PieceId id, std::optional<Bytes>& refused) {
  Buffer& buffer = core_.buffers[id.buffer];
  if (buffer.host.is_mapping) return false;  // another thread is getting the slab
  const bool may_be_dropped =
      buffer.is_fresh(id.index) && !buffer.host.has_home() && core_.digester.is_ready();
  if (may_be_dropped) return true;
  if (buffer.pieces[id.index].is_read_on_host) {
    core_.drop_digest(id);  // which is not worth a wait
    return false;
  }
  if (buffer.host.has_home()) return !mover_.awaits_operations(buffer.host, /*writes_only=*/false);
  const Bytes size{buffer.size.load()};
  if (refused && size >= *refused) return false;
  if (mover_.ensure_slab_to_leave(buffer) != Status::kNotYet) return true;
  refused = size;
  return false;
}

std::optional<PieceId> EvictionQueue::take_next() {
  // Many evictions wait for the same event: it is asked about once.
  const RecordedEvent* incomplete = nullptr;
  std::optional<Bytes> refused;
  for (auto it = pending_.begin(); it != pending_.end();) {
    const PieceId id = it->victim.piece;
    const auto waits_for_it = [incomplete](const EventRef& event) {
      return event.get() == incomplete && !event->is_known();
    };
    const bool is_asked = incomplete != nullptr && std::ranges::any_of(it->events, waits_for_it);
    Result<bool> complete = false;
    if (!is_void(*it) && !is_asked) {
      // The list keeps the element where it is: only the worker removes.
      const Unlocked unlocked(core_.mutex);
      complete = core_.events.all_complete(it->events);
    }
    bool waits = complete.ok() && !*complete;
    if (waits) {
      const auto waiting = std::ranges::find_if(
          it->events, [](const EventRef& event) { return !event->is_known(); });
      if (waiting != it->events.end()) incomplete = waiting->get();
    } else if (complete.ok() && !is_void(*it)) {
      waits = !can_write_back(id, refused);
      // Nothing counts on its page any more.
      if (waits && holds_its_ticket(*it)) core_.tell_vacating(id, false);
    }
    const bool expired = core_.now() - it->since > core_.options.wait_limit;
    const bool dropped = is_void(*it) || !complete.ok() || (waits && expired);
    if (waits && !dropped) {
      ++it;
      continue;
    }
    const bool is_its_ticket = holds_its_ticket(*it);
    if (is_its_ticket) spend_ticket(id);
    pending_.erase(it++);
    if (!dropped) return id;
    if (is_its_ticket) core_.tell_whereabouts(id);
    if (!complete.ok()) {
      ++core_.counters.errors;
      if (is_its_ticket) core_.buffers[id.buffer].pieces[id.index].evict_failed = core_.turns;
    }
    core_.waits.announce();
  }
  return std::nullopt;
}

}  // namespace superpipe
