#include "residency/mover_rounds.h"

#include <algorithm>
#include <memory>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "residency/tuning.h"

namespace superpipe {

namespace {

// Whether the piece is out and may come in, and nothing has asked for it.
bool is_missing(const Buffer& buffer, std::uint32_t index) REQUIRES(manager_lock) {
  const Piece& piece = buffer.pieces[index];
  return buffer.live && !buffer.is_left_out() && piece.is_out() && piece.want == Want::kNobody &&
         piece.state() != PieceState::kCopying;
}

// The first piece of a buffer that is missing.
std::optional<std::uint32_t> missing_piece(const Buffer& buffer) REQUIRES(manager_lock) {
  const auto pieces = static_cast<std::uint32_t>(buffer.pieces.size());
  for (std::uint32_t index = 0; buffer.missing > 0 && index < pieces; ++index) {
    if (is_missing(buffer, index)) return index;
  }
  return std::nullopt;
}

}  // namespace

bool MoverRounds::run() noexcept {
  bool worked = poll_meters();
  core_.trace_memory();
  const bool chooses_victims = core_.policy.puller() != nullptr && core_.ledger.is_under_pressure();
  if (chooses_victims) worked = poll_link() || worked;
  // The precleaner copies only what is not in use any more, and begins before there is any
  // pressure.
  if (chooses_victims || precleaner_.rest()) worked = note_completed_uses() || worked;
  wake_rested_demand();
  worked = settle_arrivals() || worked;
  worked = evictor_.settle_digests() || worked;
  worked = evictor_.settle_precleaning() || worked;
  worked = left_out_.settle() || worked;
  if (core_.samples_passthrough() && core_.passthrough.is_due(core_.now())) {
    worked = core_.sampler.sample() || !core_.warnings.empty() || worked;
  }
  if (core_.ledger.excess() > Bytes{}) {
    worked = pages_.reclaim_one() || worked;
  } else {
    core_.page_limit.end_lowering();
  }
  if (must_relieve()) worked = relieve() || worked;
  worked = fetch_next() || evict_next() || pull() || precleaner_.run() || worked;
  if (worked) core_.flush_warnings();
  return worked;
}

std::chrono::nanoseconds MoverRounds::longest_rest() const {
  // Without samples nothing comes by itself: a thread that has work for the worker wakes it.
  constexpr std::chrono::hours kUntilWoken{1};
  std::chrono::nanoseconds rest = kUntilWoken;
  if (core_.samples_passthrough()) {
    rest = std::min<std::chrono::nanoseconds>(rest, core_.passthrough.until_due(core_.now()));
  }
  if (const auto next = precleaner_.rest()) rest = std::min(rest, *next);
  if (rests_until_) {
    const std::chrono::nanoseconds left = *rests_until_ - core_.now();
    rest = std::min(rest, std::max<std::chrono::nanoseconds>(left, tuning::kRestShortestLook));
  }
  return rest;
}

bool MoverRounds::is_pending() const {
  const bool measures = core_.stalls.is_waiting() || core_.passes.is_waiting() ||
                        (core_.timeline != nullptr && core_.timeline->is_waiting()) ||
                        (core_.trace && core_.trace->is_waiting());
  const bool reclaims =
      core_.ledger.excess() > Bytes{} && (!core_.pool->empty() || core_.cache.bytes() > Bytes{});
  return !core_.fetches.empty() || !evictions_.empty() || mover_.awaits_arrivals() ||
         evictor_.is_pending() || left_out_.is_pending() || precleaner_.is_pending() || pulls_ ||
         measures || reclaims || must_relieve();
}

// Brings the meters up to date. Without host memory for that they are brought up to date later, or
// leave something out.
bool MoverRounds::poll_meters() noexcept {
  try {
    bool worked = poll(core_.stalls);
    worked = poll(core_.passes) || worked;
    if (core_.timeline != nullptr) worked = poll(*core_.timeline) || worked;
    if (core_.trace) worked = poll(*core_.trace) || worked;
    return worked;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

// Asks the device about what `meter` waits for, and lets it take what has completed.
template <typename Meter>
bool MoverRounds::poll(Meter& meter) {
  if (!meter.is_waiting()) return false;
  const std::vector<CompletionRef> awaited = meter.awaited();
  std::vector<CompletionRef> failed;
  {
    const Unlocked unlocked(core_.mutex);
    for (const CompletionRef& completion : awaited) {
      // All that a manager's meters wait for are events of its pool.
      const auto event = std::static_pointer_cast<RecordedEvent>(completion);
      if (!core_.events.is_complete(event).ok()) failed.push_back(completion);
    }
  }
  return meter.settle(core_.now(), failed);
}

// Whether to evict for a limit that has shrunk below the pages. Where a launch may exceed the
// limit, this is left to the next launch that needs room: evicting behind each such launch would
// move the same content every time. But the first time after the limit was lowered, the pages go.
bool MoverRounds::must_relieve() const {
  return core_.ledger.excess() > core_.coming() &&
         (core_.must_keep_limit() || core_.page_limit.is_lowered()) &&
         relieved_in_vain_ != core_.sampler.samples();
}

// Requests evictions of what exceeds the limit. Where no buffer can go, because all are pinned, or
// their streams are being captured, tries again at the next sample. @return whether any was.
bool MoverRounds::relieve() noexcept {
  const Bytes lacking = core_.ledger.excess() - core_.coming();
  // Once for each sample, buffers that could not go before are asked again.
  if (std::exchange(relieved_at_, core_.sampler.samples()) != core_.sampler.samples())
    ++core_.turns;
  try {
    if (evictions_.request_bytes(lacking, PagesLacking::of_any_size()) > Bytes{}) return true;
  } catch (const std::bad_alloc&) {
    // Without host memory no victim can be found now.
  }
  // What is on its way in, or being copied ahead of need, can go when that has ended.
  if (!core_.has_unsettled_pieces()) relieved_in_vain_ = core_.sampler.samples();
  return false;
}

// Carries out the first fetch that is still wanted: demands in order, then prefetches. Leaves those
// for later whose slabs the program works on: that takes as long as its work.
bool MoverRounds::fetch_next() {
  std::size_t busy = 0;
  while (const auto entry = core_.fetches.at(busy)) {
    const PieceId id{entry->piece.id, entry->piece.index};
    Buffer& buffer = core_.buffers[id.buffer];
    const bool is_valid =
        buffer.generation == entry->piece.generation && buffer.pieces[id.index].want == entry->want;
    if (!is_valid || !buffer.pieces[id.index].is_out()) {
      if (is_valid) {
        buffer.pieces[id.index].want = Want::kNobody;
        core_.tell_whereabouts(id);
      }
      core_.fetches.erase(busy);
      core_.waits.announce();
      continue;
    }
    if (buffer.is_left_out()) {
      if (entry->want == Want::kDemand) {
        ++busy;
      } else {
        buffer.pieces[id.index].want = Want::kNobody;
        core_.tell_whereabouts(id);
      }
      continue;
    }
    if (buffer.host.is_busy()) {
      ++busy;
      continue;
    }
    const auto begun = core_.now();
    const ContentMover::Fetched fetched = mover_.fetch(id, entry->want == Want::kDemand);
    if (fetched == ContentMover::Fetched::kNoPage) return false;
    if (fetched == ContentMover::Fetched::kInUse) {
      ++busy;
      continue;
    }
    if (AutoPolicy* const policy = core_.policy.puller()) {
      if (!buffer.pieces[id.index].is_out()) {
        note_under_way(id, begun);
      } else if (entry->want == Want::kPrefetch) {
        failed_at_ = attempt_number(*policy);
      }
    }
    return true;
  }
  return false;
}

// Maps what has arrived: by calls that take their time of the worker as a fetch's do.
bool MoverRounds::settle_arrivals() noexcept {
  if (!mover_.awaits_arrivals()) return false;
  const auto begun = core_.now();
  const bool settled = mover_.settle_arrivals();
  if (settled) core_.pacing.note_calls(core_.now() - begun);
  return settled;
}

// Asks policy for the next transfer, where it wants to be asked. @return whether there is one, or
// may be one at once.
bool MoverRounds::pull() {
  pulls_ = false;
  rests_until_.reset();
  if (core_.policy.puller() == nullptr || !core_.ledger.is_under_pressure()) return false;
  pulls_ = true;
  core_.pull_awaits_launch = false;
  AutoPolicy* const policy = core_.puller();
  if (policy != nullptr) {
    core_.pacing.note_announced(core_.now(), *policy);
  }
  if (core_.has_link_enough()) return policy != nullptr && want_empty(*policy);
  if (policy == nullptr || failed_at_ == attempt_number(*policy)) {
    await_launch();
    return false;
  }
  if (std::exchange(jumps_, policy->replay().jumps()) != policy->replay().jumps()) {
    take_back_prefetches();
  }
  if (!core_.fetches.empty()) return false;
  try {
    const Next next = want_next(*policy);
    if (next == Next::kWanted) return true;
    if (next == Next::kNothing) rest_from_pulling();
    // Launches need not wake the worker: it looks when it is time, and whatever it is woken for.
    if (next == Next::kInTime) pulls_ = false;
  } catch (const std::bad_alloc&) {
    await_launch();
  }
  return false;
}

// While the link has enough to do, a page can be had ahead of need for what needs only a page. Not
// while the program loads: what it loads needs the room. Whatever came of it, the next look is at
// the next launch, unless a page is on its way. @return whether one is.
bool MoverRounds::want_empty(AutoPolicy& policy) noexcept {
  const std::uint64_t launches = policy.launches();
  if (launches == 0 || no_empty_at_ == launches) return false;
  if (!core_.fetches.empty() || failed_at_ == attempt_number(policy)) return false;
  try {
    const auto target = policy.next_empty_target();
    if (target && want(policy, *target) == Next::kWanted) return true;
  } catch (const std::bad_alloc&) {
    // Its launch will want it.
  }
  no_empty_at_ = launches;
  lacks_room_ = false;  // an empty buffer is not worth looking for victims all the time
  return false;
}

// Finds out what policy wants next, and has it fetched.
MoverRounds::Next MoverRounds::want_next(AutoPolicy& policy) {
  const auto target = policy.next_target();
  awaits_link_ = false;
  if (!target) {
    lacks_room_ = false;
    // Looking on may take long. Launches may have the mutex before.
    return policy.is_looking() ? Next::kAskAgain : Next::kNothing;
  }
  return want(policy, *target);
}

// Has a piece of the target fetched.
MoverRounds::Next MoverRounds::want(AutoPolicy& policy, const AutoPolicy::Target& target) {
  // What is only supposed to be used is not worth the room of a longer queue.
  awaits_link_ = target.is_supposed && core_.under_way.has_next();
  if (awaits_link_) return Next::kLater;
  Buffer& buffer = core_.buffers[target.id];
  const std::optional<std::uint32_t> piece = missing_piece(buffer);
  if (!piece) return Next::kNothing;  // it is about to leave, and can come back only then
  const WantedPiece wanted{target.id, *piece, buffer.generation};
  const Bytes bytes = buffer.bytes_of(*piece);
  // The link does not rest while there is room that no page has had yet.
  if (!target.is_supposed && !core_.ledger.admits(bytes)) {
    rests_until_ = core_.pacing.link_rest(policy, core_.link_speed(), core_.now());
  }
  if (rests_until_) {
    lacks_room_ = false;
    return Next::kInTime;
  }
  const Bytes lacking = buffer.pieces[*piece].has_page()
                            ? Bytes{}
                            : saturating_subtract(bytes, core_.obtainable_ahead());
  lacks_room_ = lacking > Bytes{};
  if (lacks_room_ && evictions_.request_bytes_used_after(target, lacking, bytes) == Bytes{}) {
    // A victim that lacks a slab gets none when its uses complete.
    if (target.is_supposed) lacks_room_ = evictions_.awaits_victims();
    return Next::kNothing;
  }
  // Requesting evictions opens the mutex.
  if (buffer.generation != wanted.generation || !is_missing(buffer, *piece)) {
    return Next::kAskAgain;
  }
  core_.want({target.id, *piece}, Want::kPrefetch);
  return Next::kWanted;
}

// Policy expects other launches than when it wanted what is still waiting for a page.
void MoverRounds::take_back_prefetches() {
  while (const auto wanted = core_.fetches.take_prefetch()) {
    Buffer& buffer = core_.buffers[wanted->id];
    if (buffer.generation != wanted->generation) continue;
    Piece& piece = buffer.pieces[wanted->index];
    if (piece.want != Want::kPrefetch) continue;
    piece.want = Want::kNobody;
    core_.tell_whereabouts(PieceId{wanted->id, wanted->index});
  }
}

// A prefetch that failed is tried again after the next launch, and before the first one, which only
// a recorded run tells about, after the next use of any buffer.
std::uint64_t MoverRounds::attempt_number(const AutoPolicy& policy) const {
  return policy.launches() == 0 ? core_.seq : policy.launches();
}

// Policy wants nothing now, and will not before the next launch, or before a use of a victim has
// completed. While launches come, it is asked again soon, so that they need not wake the worker;
// once there was none, the next one does.
void MoverRounds::rest_from_pulling() {
  const std::uint64_t launches = core_.policy.puller()->launches();
  const bool awaits_victims = lacks_room_ && completion_.is_awaiting();
  if (std::exchange(rested_at_, launches) == launches && !awaits_victims) await_launch();
}

// The next launch wakes the worker, unless other work does so before.
void MoverRounds::await_launch() {
  pulls_ = false;
  core_.pull_awaits_launch = true;
}

// Without host memory to note it, the link seems to have less to do than it has.
void MoverRounds::note_under_way(PieceId id, ResidencyCore::Clock::time_point begun) noexcept {
  const Buffer& buffer = core_.buffers[id.buffer];
  const EventRef& ready = buffer.pieces[id.index].ready;
  if (ready == nullptr || ready->fetch == 0) return;  // nothing crosses the link for it
  core_.pacing.note_fetch(core_.now() - begun, buffer.bytes_of(id.index));
  try {
    core_.under_way.add(ready, buffer.bytes_of(id.index), core_.now());
    link_has_enough_ = link_has_enough_ || core_.has_link_enough();
  } catch (const std::bad_alloc&) {
  }
}

// Buffers may go as soon as their uses are known to be over. @return whether any is now.
bool MoverRounds::note_completed_uses() noexcept {
  try {
    const bool progressed = completion_.advance();
    note_progress();
    return progressed;
  } catch (const std::bad_alloc&) {
    return false;  // fewer uses are known to have completed
  }
}

// So that it is known how long it will be until the device comes to a launch.
void MoverRounds::note_progress() {
  const AutoPolicy* const policy = core_.puller();
  const auto completed = core_.streams.completed_to(core_.seq);
  if (policy == nullptr || policy->launches() == 0 || !completed) return;
  core_.pacing.note_completed(core_.now(), *completed, *policy);
}

// A launch that had time to wait has it no longer.
void MoverRounds::wake_rested_demand() {
  if (core_.pacing.must_wake(core_.now())) core_.waits.announce_to_waiters();
}

// While the link has enough to do for what policy wants, or transfers take long, asks the device
// about the oldest transfer alone: they end in order. Threads that wait for the link to have too
// little are told. @return whether one has ended.
bool MoverRounds::poll_link() noexcept {
  bool ended = false;
  const auto must_ask = [&]() REQUIRES(manager_lock) {
    return core_.has_link_enough() || (awaits_link_ && core_.under_way.has_next()) ||
           core_.under_way.is_followed_by_long(core_.link_speed());
  };
  while (must_ask()) {
    const EventRef oldest = core_.under_way.oldest();
    Result<bool> complete = false;
    {
      const Unlocked unlocked(core_.mutex);
      complete = core_.events.is_complete(oldest);
    }
    if (complete.ok() && !*complete) break;
    core_.under_way.drop_oldest(core_.now());
    ended = true;
  }
  // With time it also becomes too little for a write-back.
  const bool had_enough = std::exchange(link_has_enough_, core_.has_link_enough());
  if (ended || (had_enough && !link_has_enough_)) core_.waits.announce_to_waiters();
  return ended;
}

bool MoverRounds::evict_next() {
  const auto id = evictions_.take_next();
  if (!id) return false;
  const auto begun = core_.now();
  evictor_.evict(*id);
  core_.pacing.note_calls(core_.now() - begun);
  return true;
}

}  // namespace superpipe
