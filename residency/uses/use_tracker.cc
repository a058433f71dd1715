#include "residency/uses/use_tracker.h"

#include <algorithm>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "residency/tuning.h"

namespace superpipe {

namespace {

constexpr std::uint64_t bit(Slot slot) { return std::uint64_t{1} << slot; }

// Whether `later` completes no sooner than `earlier`.
bool is_behind(const RecordedEvent& later, const RecordedEvent& earlier) {
  return &later == &earlier || (earlier.fetch > 0 && later.fetch >= earlier.fetch);
}

// Adds what a stream has to wait for, unless that is in `arrivals` by another event. Of fetches,
// which end in their order, one is there at most: the newest.
void add_arrival(const EventRef& arrival, std::vector<EventRef>& arrivals) {
  for (EventRef& known : arrivals) {
    if (is_behind(*known, *arrival)) return;
    if (known->fetch > 0 && arrival->fetch > 0) {
      known = arrival;
      return;
    }
  }
  arrivals.push_back(arrival);
}

}  // namespace

bool UseTracker::names_arena(std::span<const std::uint64_t> words) const {
  return std::any_of(words.begin(), words.end(), [this](std::uint64_t word) {
    return word - core_.arena_base < core_.arena_size.count();
  });
}

// Names each live buffer once.
void UseTracker::collect(std::span<const std::uint64_t> words, UseToken& token) {
  token.count_ = 0;
  const std::uint64_t mark = ++mark_;
  const Arena& arena = *core_.arena;
  const BufferTable& buffers = core_.buffers;
  for (const std::uint64_t word : words) {
    const std::uint32_t index = arena.index_at(word);
    if (index == Arena::kNobody) continue;
    Buffer& buffer = buffers[BufferId{index}];
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
bool UseTracker::all_ready(const UseToken& token, const Use& use) const {
  const BufferTable& buffers = core_.buffers;
  for (const BufferId id : ids(token)) {
    Buffer& buffer = buffers[id];
    if (!buffer.is_ready_for(use.slot)) return false;
    if (use.capturing && !buffer.pinned_forever) return false;
  }
  return true;
}

// Keeps them where they are, or will be; rescues those that were about to be evicted.
void UseTracker::pin(const UseToken& token) {
  for (const BufferId id : ids(token)) pin(id);
}

// Notes what the operation will do to the buffers: the slot that uses them, and that they will be
// dirty. REQUIRES: they are mapped, because an eviction and a fetch reset these notes.
void UseTracker::mark_used(const UseToken& token, const Use& use) {
  for (const BufferId id : ids(token)) mark_used(core_.buffers[id], use);
}

void UseTracker::mark_used(Buffer& buffer, const Use& use) {
  if (use.slot != kNoSlot) buffer.uses |= bit(use.slot);
  if (use.capturing) buffer.pinned_forever = true;
  if (use.writes) buffer.note_write();
}

// Counts the buffers that mark_used() is about to pin forever.
void UseTracker::count_pinned(const UseToken& token, const Use& use) {
  if (!use.capturing) return;
  for (const BufferId id : ids(token)) {
    if (!core_.buffers[id].pinned_forever) ++core_.counters.pinned_buffers;
  }
}

// A copy or a memset does write, where a launch only may.
void UseTracker::note_known_writes(const UseToken& token, const Use& use) {
  if (!use.writes) return;
  for (const BufferId id : ids(token)) core_.buffers[id].note_known_write();
}

void UseTracker::unpin(const UseToken& token) {
  const BufferTable& buffers = core_.buffers;
  for (const BufferId id : ids(token)) --buffers[id].pins;
  core_.waits.announce_to_waiters();
}

// Pins and marks in one loop: with all_ready(), this is what a launch costs when all is in place.
bool UseTracker::pin_if_ready(const UseToken& token, const Use& use) {
  if (!all_ready(token, use)) return false;
  const BufferTable& buffers = core_.buffers;
  for (const BufferId id : ids(token)) {
    pin(id);
    mark_used(buffers[id], use);
  }
  return true;
}

void UseTracker::prepare(Use& use, UseToken& token) {
  use.slot = use.capturing ? kNoSlot : streams_.slot_of(use.stream);
  token.count_ = 0;
  token.slot_ = use.slot;
  token.host_route_ = false;
  token.waited_ = false;
  token.marks_end_ = false;
  token.writes_ = use.writes;
  token.left_out_ = 0;
}

Status UseTracker::begin(const Use& use, UseToken& token) {
  collect(use.words, token);
  if (token.count_ == 0) return Status::kOk;
  const Status status = pin_if_ready(token, use) ? Status::kOk : acquire(token, use, Decision{});
  if (status == Status::kOk) note_known_writes(token, use);
  return status;
}

Status UseTracker::begin_in_place(BufferId id, const Use& use, UseToken& token) {
  token.count_ = 1;
  token.inline_[0] = id;
  pin(id);
  Status status = Status::kOutOfHostMemory;
  try {
    status = order_behind_fetches(ids(token), use, nullptr);
  } catch (const std::bad_alloc&) {
    // It stays out of host memory.
  }
  if (status == Status::kOk) {
    count_pinned(token, use);
    mark_used(token, use);
    note_known_writes(token, use);
  } else {
    unpin(token);
    token.count_ = 0;
  }
  return status;
}

Status UseTracker::begin_launch(KernelId kernel, std::span<const std::uint64_t> words,
                                StreamHandle stream, UseToken& token) try {
  token.count_ = 0;
  token.launch_ = launches_.fetch_add(1, std::memory_order_relaxed) + 1;
  if (!names_arena(words)) return Status::kOk;
  // The caller sends captured streams elsewhere, but one may have begun to capture since.
  const auto capturing = streams_.is_capturing(stream);
  if (!capturing.ok()) return capturing.status();
  const ManagerLock lock(core_.mutex);
  Use use{words, stream, true, *capturing, kernel, token.launch_};
  use.certain_words = token.certain_words_;
  prepare(use, token);
  collect(words, token);
  if (token.count_ == 0) return Status::kOk;
  core_.counters.accesses += token.count_;
  if (core_.may_ask_policy()) return begin_advised(use, token);
  return pin_if_ready(token, use) ? Status::kOk : acquire(token, use, Decision{});
} catch (const std::bad_alloc&) {
  token.count_ = 0;
  return Status::kOutOfHostMemory;
}

// A launch that policy is told of, and gives advice for.
Status UseTracker::begin_advised(const Use& use, UseToken& token) {
  const Decision decision = ask_policy(use, token);
  if (core_.policy.at_pass_start()) [[unlikely]] {
    note_pass(use);
    collect(use.words, token);  // the mutex was open: a buffer may be gone
    if (token.count_ == 0) return Status::kOk;
  }
  core_.page_limit.refresh();
  // When all fits, nothing is ever moved (I6): what policy wants evicted may stay.
  const bool advised =
      !decision.fetch.empty() || (!decision.evict.empty() && core_.ledger.is_under_pressure());
  Status status = Status::kOk;
  if (advised || !core_.ledger.is_within_limit() || !pin_if_ready(token, use)) {
    status = acquire(token, use, decision);
  }
  if (core_.timeline != nullptr && status == Status::kOk) note_launch(token);
  token.marks_end_ = core_.ledger.is_under_pressure() && core_.policy.puller() != nullptr &&
                     completion_.note_launch(use.slot, ids(token));
  return status;
}

Decision UseTracker::ask_policy(const Use& use, const UseToken& token) {
  try {
    // A launch that is captured runs on no stream yet. It counts as one of the first.
    const Slot stream = use.slot == kNoSlot ? Slot{0} : use.slot;
    if (const AutoPolicy* const puller = core_.policy.puller(); puller != nullptr) {
      core_.pacing.note_launch(core_.seq, *puller);
    }
    Decision decision = core_.policy.on_launch(Access{use.kernel, ids(token), stream});
    // What policy wants to move next may be another now.
    if (std::exchange(core_.pull_awaits_launch, false)) core_.wake_worker();
    if (core_.follows_recorded) core_.follow_recorded();
    return decision;
  } catch (const std::bad_alloc&) {
    core_.asks_policy = false;  // policy's state is not known: may_ask_policy() replaces it
    return {};
  }
}

Status UseTracker::begin_use(std::span<const std::uint64_t> words, bool writes, StreamHandle stream,
                             UseToken& token, bool may_shrink) try {
  token.count_ = 0;
  if (!names_arena(words)) return Status::kOk;
  const auto capturing = streams_.is_capturing(stream);
  if (!capturing.ok()) return capturing.status();
  const ManagerLock lock(core_.mutex);
  Use use{words, stream, writes, *capturing};
  use.may_shrink = may_shrink;
  prepare(use, token);
  return begin(use, token);
} catch (const std::bad_alloc&) {
  token.count_ = 0;
  return Status::kOutOfHostMemory;
}

// Of no stream: what arrives is waited for here, and no use is noted.
Status UseTracker::begin_hold(std::span<const std::uint64_t> words, UseToken& token) try {
  token.count_ = 0;
  if (!names_arena(words)) return Status::kOk;
  token.slot_ = kNoSlot;
  token.host_route_ = false;
  token.waited_ = false;
  token.marks_end_ = false;
  token.writes_ = false;
  token.left_out_ = 0;
  Use use;
  use.words = words;
  use.writes = false;
  const ManagerLock lock(core_.mutex);
  collect(words, token);
  if (token.count_ == 0) return Status::kOk;
  return pin_if_ready(token, use) ? Status::kOk : acquire(token, use, Decision{});
} catch (const std::bad_alloc&) {
  token.count_ = 0;
  return Status::kOutOfHostMemory;
}

// Pins what `use` names, waits until it is mapped, and orders the stream behind its fetches. On
// failure nothing is pinned, nor marked as used.
Status UseTracker::acquire(UseToken& token, const Use& use, const Decision& decision) {
  if (core_.waits.abandoned) return Status::kDeviceError;
  // The operation pins only when its turn has come. What is mapped already, or on its way, needs no
  // turn, though it may have to be ordered behind its arrival; unless it waits for others to leave.
  const auto named = ids(token);
  const auto needs_room = [this](BufferId id)
                              REQUIRES(manager_lock) { return core_.buffers[id].needs_fetch(); };
  Turn turn(core_);
  bool over_limit = true;
  if (decision.fetch_before_launch || core_.page_limit.is_lowered() ||
      std::any_of(named.begin(), named.end(), needs_room)) {
    token.waited_ = true;
    over_limit = !turn.take(core_.now() + core_.options.wait_limit);
    if (core_.waits.are_over()) {
      token.count_ = 0;
      return Status::kDeviceError;  // no call of the device any more
    }
    // Without the turn it may not wait for others to leave. The one that has it may wait for work
    // that does not end, and this one has nothing to do with that (I7).
    if (over_limit) {
      core_.warn_gave_up(
          "for another operation that needs room on the device to get it, and went over the limit");
    }
    collect(use.words, token);  // the mutex was open
  }
  pin(token);
  const StallMeter::ProbeRef probe = open_probe(token, use);
  Status status = Status::kOutOfHostMemory;
  try {
    status = get_in_place(token, use, decision, over_limit ? nullptr : &turn, probe.get());
  } catch (const std::bad_alloc&) {
    // It stays out of host memory.
  }
  if (status != Status::kOk) admission_.give_up({ids(token), use.kernel});
  turn.end();
  if (probe != nullptr) probe->submitted(core_.now());
  if (status == Status::kOk) {
    count_pinned(token, use);
    mark_used(token, use);
  } else {
    partial_.end(ids(token).last(token.left_out_), false, nullptr);
    unpin(token);
    token.count_ = 0;
  }
  core_.flush_warnings();
  return status;
}

// Gets pinned buffers mapped, and orders the stream behind their arrival. The turn ends when all
// are mapped, or before, once all of them are on their way.
Status UseTracker::get_in_place(UseToken& token, const Use& use, const Decision& decision,
                                Turn* turn, StallMeter::Probe* probe) {
  const auto buffers = ids(token);
  // What is captured cannot be left out of later launches.
  const std::size_t certain = use.slot == kNoSlot ? buffers.size() : certain_buffers(use);
  const auto left_out =
      partial_.bring_in({buffers, certain, use.kernel, use.slot, use.may_shrink, turn}, decision);
  if (!left_out.ok()) return left_out.status();
  token.left_out_ = static_cast<std::uint32_t>(*left_out);
  if (turn != nullptr) turn->end();
  Status status = order_behind_fetches(ids(token), use, probe);
  if (status != Status::kOk || !decision.fetch_before_launch || use.capturing) return status;
  // No overlap: this launch starts only behind everything that was fetched with it.
  std::vector<BufferId> in;
  for (const BufferId id : decision.fetch) {
    if (core_.buffers[id].live && core_.buffers[id].missing == 0) in.push_back(id);
  }
  return order_behind_fetches(in, use, probe);
}

// How many buffers the certain words of a launch name: those come first.
std::size_t UseTracker::certain_buffers(const Use& use) {
  const std::uint64_t mark = ++mark_;
  std::size_t count = 0;
  for (const std::uint64_t word : use.words.first(std::min(use.certain_words, use.words.size()))) {
    const std::uint32_t index = core_.arena->index_at(word);
    if (index == Arena::kNobody || core_.buffers[BufferId{index}].mark == mark) continue;
    core_.buffers[BufferId{index}].mark = mark;
    ++count;
  }
  return count;
}

// Makes the stream wait for the arrival of `buffers`, or waits here where no stream may be touched.
Status UseTracker::order_behind_fetches(std::span<const BufferId> buffers, const Use& use,
                                        StallMeter::Probe* probe) {
  std::vector<EventRef> arrivals;
  for (const BufferId id : buffers) {
    const Buffer& buffer = core_.buffers[id];
    if (buffer.filling == 0 || buffer.has_waited(use.slot)) continue;
    for (const Piece& piece : buffer.pieces) {
      if (piece.is_filling()) add_arrival(piece.ready, arrivals);
    }
  }
  if (arrivals.empty()) return Status::kOk;
  Status status = Status::kOk;
  {
    const Unlocked unlocked(core_.mutex);
    if (use.slot == kNoSlot) {
      for (const EventRef& arrival : arrivals) {
        if (status == Status::kOk) status = core_.events.wait(arrival, core_.options.wait_limit);
      }
    } else {
      for (const EventRef& arrival : arrivals) (void)core_.events.is_complete(arrival);
      status = core_.events.stream_wait(use.stream, arrivals);
    }
  }
  if (status != Status::kOk) {
    ++core_.counters.errors;
    if (status == Status::kTimedOut) core_.warn_gave_up("for content to arrive on the device");
    return status;
  }
  for (const BufferId id : buffers) note_ordered(core_.buffers[id], use.slot, arrivals);
  if (probe != nullptr) probe->add_fetches(arrivals);
  return Status::kOk;
}

// The stream of `slot` waits for `arrivals`: forgets those that are over, and notes the slot if
// they were all that the buffer lacks.
void UseTracker::note_ordered(Buffer& buffer, Slot slot, std::span<const EventRef> arrivals) {
  bool covers = true;
  for (std::uint32_t index = 0; buffer.filling > 0 && index < buffer.pieces.size(); ++index) {
    const Piece& piece = buffer.pieces[index];
    if (piece.ready == nullptr) continue;
    const RecordedEvent& ready = *piece.ready;
    const auto covering = std::ranges::find_if(
        arrivals, [&ready](const EventRef& arrival) { return is_behind(*arrival, ready); });
    const bool is_over = covering != arrivals.end() && (*covering)->is_known();
    if (is_over || !piece.is_filling()) {
      buffer.set_ready(index, nullptr);
    } else {
      covers = covers && covering != arrivals.end();
    }
  }
  if (buffer.filling > 0 && covers && slot < StreamTable::kShared) buffer.waited |= bit(slot);
}

// Begins to measure how long the launch stalls. A probe that cannot be had is no reason to fail it.
StallMeter::ProbeRef UseTracker::open_probe(const UseToken& token, const Use& use) {
  if (use.slot == kNoSlot || !core_.moves || all_ready(token, use)) return nullptr;
  const auto asked = core_.now();
  Result<EventRef> stream_end = Status::kDeviceError;
  {
    const Unlocked unlocked(core_.mutex);
    stream_end = core_.events.record(use.stream, 0);
  }
  if (!stream_end.ok()) return nullptr;
  try {
    auto probe = core_.stalls.open(asked, *stream_end, use.launch);
    core_.wake_worker();
    return probe;
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

void UseTracker::end_use(UseToken& token, StreamHandle stream, bool submitted) noexcept {
  if (token.count_ == 0) return;
  const bool tracked = submitted && token.slot_ != kNoSlot;
  // Streams that only their own thread can record on get their event now.
  const bool marks =
      tracked && core_.moves &&
      (token.slot_ == StreamTable::kShared || stream == kPerThreadStream || token.left_out_ > 0);
  const ManagerLock lock(core_.mutex);
  auto end = streams_.end_operation(stream, token.slot_, marks);
  if (tracked) {
    const BufferTable& buffers = core_.buffers;
    for (const BufferId id : ids(token)) buffers[id].last_use = end.seq;
    if (marks) [[unlikely]]
      note_marked(token, stream, end);
    core_.streams.note_use(token.slot_, stream, end.seq, std::move(end.event));
  } else if (token.left_out_ > 0) {
    partial_.end(ids(token).last(token.left_out_), false, nullptr);
  }
  unpin(token);
  if (token.marks_end_ && tracked) [[unlikely]]
    mark_progress(token.slot_);
  token.count_ = 0;
}

// Of a use with an event behind it.
void UseTracker::note_marked(const UseToken& token, StreamHandle stream,
                             const StreamMarker::OperationEnd& end) noexcept {
  if (token.left_out_ > 0) partial_.end(ids(token).last(token.left_out_), true, end.event);
  if (token.slot_ != StreamTable::kShared) return;
  ask_about_shared(core_.streams.shared());
  for (const BufferId id : ids(token)) {
    SharedUses& marked = core_.buffers[id].rare->marked;
    ask_about_shared(marked);
    marked.note({stream, thread_of(stream), end.seq, end.event});
  }
}

// Where there are many, asks about some, so that those that are over make room. May open the mutex.
// REQUIRES: the uses are of a pinned buffer, or of all.
void UseTracker::ask_about_shared(SharedUses& uses) noexcept try {
  if (uses.size() < tuning::kSharedUsesMany) return;
  const std::vector<EventRef> events = uses.next_to_ask(tuning::kSharedUsesAsked);
  const Unlocked unlocked(core_.mutex);
  for (const EventRef& event : events) (void)core_.events.is_complete(event);
} catch (const std::bad_alloc&) {
  // They stay until they are asked about again.
}

// So that it becomes known when the device is done with the launch, and with those before it.
// Not where the manager ended since the launch began, for then nothing may call the device.
void UseTracker::mark_progress(Slot slot) noexcept {
  if (core_.waits.are_over()) return;
  if (const AutoPolicy* const puller = core_.policy.puller(); puller != nullptr) {
    core_.pacing.note_submitted(core_.seq, *puller);
  }
  completion_.mark_end(slot);
}

void UseTracker::note_launch(const UseToken& token) {
  const auto time = core_.now();
  for (const BufferId id : ids(token)) {
    const Buffer& buffer = core_.buffers[id];
    EventRef last;  // mostly: pieces are fetched in their order
    for (const Piece& piece : buffer.pieces) {
      if (piece.is_filling()) last = piece.ready;
    }
    if (last == nullptr) core_.timeline->note_arrival(id, time);
    core_.timeline->add_when(last, Timeline::Kind::kLaunch, time, id, buffer.footprint);
  }
}

// A pass begins when the device has done what was submitted before its first launch: the host may
// be passes ahead of it. A start that cannot be marked is left out, which joins two passes.
void UseTracker::note_pass(const Use& use) noexcept {
  if (use.slot == kNoSlot) return;
  if (core_.trace) core_.trace->add(core_.now(), TracePass{{use.launch}});
  const std::uint64_t launch = core_.policy.present();
  Result<EventRef> start = Status::kDeviceError;
  {
    const Unlocked unlocked(core_.mutex);
    start = core_.events.record(use.stream, 0);
  }
  if (!start.ok()) return;
  try {
    core_.passes.note_start(*start, launch);
  } catch (const std::bad_alloc&) {
    return;
  }
  core_.wake_worker();
}

Status UseTracker::pin_forever(std::span<const std::uint64_t> words, const char* reason) try {
  if (!names_arena(words)) return Status::kOk;
  UseToken token;
  const ManagerLock lock(core_.mutex);
  collect(words, token);
  if (token.count_ == 0) return Status::kOk;
  // As on a capturing stream: waited for here, and never moved again.
  const Use use{words, kLegacyStream, true, true};
  if (all_ready(token, use)) return Status::kOk;
  if (core_.moves) {
    core_.warnings.once(std::string("pin ") + reason, [&] {
      return std::string("buffers stay on the device from now on: ") + reason;
    });
  }
  const Status status = acquire(token, use, Decision{});
  if (status != Status::kOk) return status;
  for (const BufferId id : ids(token)) {
    core_.backing.keep_pinned(core_.buffers[id], core_.ledger.limit());
  }
  unpin(token);
  return status;
} catch (const std::bad_alloc&) {
  return Status::kOutOfHostMemory;
}

}  // namespace superpipe
