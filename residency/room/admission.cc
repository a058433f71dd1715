#include "residency/room/admission.h"

#include <algorithm>
#include <new>
#include <utility>

#include "policy/budget.h"
#include "residency/room/turn.h"
#include "residency/tuning.h"

namespace superpipe {
namespace {

constexpr auto kBeforeRefusal = MemorySampler::Settling::kBeforeRefusal;

}  // namespace

Status Admission::bring_in(const WorkingSet& set, const Decision& decision) {
  follow(decision);
  Attempt attempt = begin(set);
  attempt.seeks_no_room = set.turn == nullptr;
  const bool may_end_turn = set.turn != nullptr && !decision.fetch_before_launch;
  const bool goes_by_parts = set.may_shrink && set.kernel == KernelId{};
  if (attempt.working_set > core_.ledger.limit() && !goes_by_parts) {
    (void)core_.page_limit.claim(attempt.working_set);
  }
  if (const Status refused = refuse_too_large(set, attempt); refused != Status::kOk) return refused;
  for (;;) {
    const auto missing = demand_missing(set, attempt);
    if (!missing.ok()) return missing.status();
    if (!missing->any) break;
    // It looks less often for what has arrived while nothing waits for that.
    if (missing->comes && !std::exchange(attempt.hurried, true)) core_.wake_worker();
    // What is left is on its way, and no more room is sought for it: others may seek theirs.
    if (may_end_turn && !missing->out && !core_.page_limit.is_lowered()) {
      set.turn->end();
      attempt.seeks_no_room = true;
    }
    if (!attempt.seeks_no_room && missing->pages > Bytes{}) {
      const auto next = find_room(set, *missing, attempt);
      if (!next.ok()) return next.status();
      if (*next == Next::kLookAgain) continue;
    }
    if (const Status waited = wait(missing->pages, attempt); waited != Status::kOk) return waited;
  }
  if (decision.fetch_before_launch) wait_for(decision.fetch, attempt.deadline);
  // The limit has shrunk, or this launch went over it: evictions bring the device back below it as
  // soon as the work that uses their buffers is done.
  if (core_.ledger.excess() > core_.coming()) {
    (void)evictions_.request_bytes(core_.ledger.excess() - core_.coming(),
                                   PagesLacking::of_any_size());
  }
  if (core_.page_limit.is_lowered() && set.turn != nullptr) let_others_go();
  return Status::kOk;
}

// The limit was lowered, and the pages do not fit it yet. A program that runs far ahead of its
// device names each buffer again before its last use is over, so that none could ever go. So
// launches wait here until enough of the other buffers are gone: for as long as the device needs
// for what was submitted, which may be thousands of launches. Work may itself wait for the program
// (I7), so the wait limit is the most that this takes.
void Admission::let_others_go() {
  const auto deadline = core_.now() + core_.options.wait_limit;
  while (core_.page_limit.is_lowered() && core_.ledger.excess() > Bytes{}) {
    const Bytes excess = core_.ledger.excess();
    const bool lacks = excess > core_.coming();
    const bool requested = lacks && evictions_.request_bytes(excess - core_.coming(),
                                                             PagesLacking::of_any_size()) > Bytes{};
    const bool moves = core_.coming() > Bytes{} || core_.has_unsettled_pieces();
    if (lacks && !requested && !moves) return;  // nothing else can go
    if (core_.wait_change(deadline)) continue;
    core_.page_limit.end_lowering();
    if (!core_.waits.are_over()) warn_not_lowered();
  }
}

// Requests what policy advises. While everything fits, what it wants evicted may stay (I6).
void Admission::follow(const Decision& decision) {
  if (core_.ledger.is_under_pressure()) (void)evictions_.request(decision.evict);
  for (const BufferId id : decision.fetch) {
    if (index_of(id) < core_.buffers.end() && core_.buffers[id].live) prefetch(id);
  }
  if (!core_.fetches.empty()) core_.wake_worker();
}

void Admission::prefetch(BufferId id) {
  Buffer& buffer = core_.buffers[id];
  for (std::uint32_t index = 0; buffer.missing > 0 && index < buffer.pieces.size(); ++index) {
    Piece& piece = buffer.pieces[index];
    const bool is_coming = piece.state() == PieceState::kFetching || piece.is_on_its_way();
    if (piece.is_in() || is_coming || piece.want != Want::kNobody) continue;
    core_.want({id, index}, Want::kPrefetch);
  }
}

Admission::Attempt Admission::begin(const WorkingSet& set) const {
  Bytes working_set;
  std::size_t pieces = 0;
  for (const BufferId id : set.buffers) {
    working_set += core_.buffers[id].footprint;
    pieces += core_.buffers[id].pieces.size();
  }
  const auto now = core_.now();
  // Other victims are taken long before the wait is given up.
  const auto patience_step = core_.options.patience();
  return {working_set,   now + core_.options.wait_limit, now + patience_step,
          patience_step, core_.counters.errors,          tuning::kAdmissionFullDevices + pieces};
}

// Demands each piece that is out and that nothing has demanded yet.
// @return why an earlier demand failed, if that is final.
Result<Admission::Missing> Admission::demand_missing(const WorkingSet& set, Attempt& attempt) {
  Missing missing;
  for (const BufferId id : set.buffers) {
    Buffer& buffer = core_.buffers[id];
    if (buffer.missing == 0) continue;
    missing.any = true;
    for (std::uint32_t index = 0; index < buffer.pieces.size(); ++index) {
      Piece& piece = buffer.pieces[index];
      missing.comes = missing.comes || piece.is_on_its_way();
      missing.out = missing.out || (!piece.is_in() && !piece.is_on_its_way());
      if (!piece.is_out()) continue;
      if (piece.want != Want::kDemand) {
        const Status status = demand({id, index}, attempt);
        if (status != Status::kOk) return status;
      }
      piece.may_exceed_limit = attempt.seeks_no_room;
      if (piece.has_page()) continue;
      missing.pages += buffer.bytes_of(index);
      missing.largest = std::max(missing.largest, buffer.bytes_of(index));
      if (buffer.has_host_content()) missing.fetched += buffer.bytes_of(index);
      missing.sizes.add(buffer.bytes_of(index));
    }
  }
  return missing;
}

Status Admission::demand(PieceId id, Attempt& attempt) {
  Buffer& buffer = core_.buffers[id.buffer];
  Piece& piece = buffer.pieces[id.index];
  const Bytes bytes = buffer.bytes_of(id.index);
  const Status failed = std::exchange(piece.fetch_status, Status::kOk);
  if (failed == Status::kOutOfDeviceMemory && attempt.full_devices_left > 0) {
    --attempt.full_devices_left;
    // The device is fuller than the budget says: what is missing must come from other buffers.
    if (evictions_.request_bytes(bytes, bytes) == Bytes{} && core_.obtainable() < bytes) {
      return failed;
    }
  } else if (failed != Status::kOk) {
    return failed;
  }
  core_.want(id, Want::kDemand);
  core_.wake_worker();
  return Status::kOk;
}

// Refuses what can never be on the device at once, before anything is moved for it.
Status Admission::refuse_too_large(const WorkingSet& set, Attempt& attempt) {
  const auto is_too_large = [&]() REQUIRES(manager_lock) {
    return attempt.working_set > core_.ledger.limit() && core_.must_keep_limit();
  };
  const auto is_missing = [this](BufferId id)
                              REQUIRES(manager_lock) { return core_.buffers[id].missing > 0; };
  if (!is_too_large() || std::ranges::none_of(set.buffers, is_missing)) return Status::kOk;
  // What was freed since the last sample, or was taken for this process's, may be all that is
  // lacking.
  if (!std::exchange(attempt.sampled, true)) (void)core_.sampler.sample();
  if (is_too_large() && !set.may_shrink &&
      core_.passthrough.wants_own(core_.now(), kBeforeRefusal)) {
    (void)core_.sampler.sample(kBeforeRefusal);
  }
  if (!is_too_large()) return Status::kOk;
  if (!set.may_shrink) note_refusal(set, attempt);
  return Status::kWorkingSetTooLarge;
}

// Requests evictions for what does not come free by itself, and finds out when nothing will.
// @return kWorkingSetTooLarge, kDeviceError.
Result<Admission::Next> Admission::find_room(const WorkingSet& set, const Missing& missing,
                                             Attempt& attempt) {
  // The limit may have shrunk since.
  if (const Status refused = refuse_too_large(set, attempt); refused != Status::kOk) return refused;
  const bool too_large = attempt.working_set > core_.ledger.limit();
  const Lacking lacking = look_for_room(missing, attempt);
  if (lacking.is_nothing()) return Next::kWait;
  // While the link is busy nothing is gained by choosing what leaves. What has been used by the
  // time that it runs dry may then go: mostly that is what is needed last.
  if (core_.is_link_busy() || rests(set, missing, attempt.rest)) return Next::kWait;
  if (request_room(missing, lacking)) return Next::kWait;
  // Nothing can go and nothing is on its way. But the pins of other operations end soon.
  if (!too_large && others_move(set)) return Next::kWait;
  return do_without_room(set, attempt);
}

// What does not come by itself. Now and then, when the attempt has waited long, only what is idle
// counts as room, and nothing is spared.
Admission::Lacking Admission::look_for_room(const Missing& missing, Attempt& attempt) {
  // What waits its turn on a slow link is not stuck.
  if (core_.is_link_busy()) {
    attempt.patience = std::max(attempt.patience, core_.now() + attempt.patience_step);
  }
  Lacking lacking;
  lacking.is_impatient = core_.now() >= attempt.patience;
  if (lacking.is_impatient) {
    core_.pacing.end_rest(attempt.rest, core_.now());
    attempt.patience += attempt.patience_step;
    core_.let_freed_lately_go();
    lacking.pages = saturating_subtract(missing.pages, core_.obtainable_now());
    return lacking;
  }
  lacking.pages = saturating_subtract(missing.pages, core_.obtainable_ahead());
  lacking.chooses_at_once = core_.policy.puller() != nullptr;
  if (lacking.chooses_at_once) {
    // What crosses the link need not wait for the work of the program that uses freed buffers.
    lacking.at_once = saturating_subtract(missing.fetched, evictions_.obtainable_at_once());
  }
  return lacking;
}

// Requests evictions of what is lacking. @return whether room is on its way now.
bool Admission::request_room(const Missing& missing, const Lacking& lacking) {
  if (lacking.chooses_at_once && request_at_once(missing, lacking)) return true;
  if (lacking.pages == Bytes{}) return true;
  // What was freed lately goes before anything whose use is not over.
  const Bytes still =
      lacking.is_impatient ? lacking.pages : saturating_subtract(missing.pages, core_.obtainable());
  return still == Bytes{} || evictions_.request_bytes(still, missing.sizes) > Bytes{} ||
         pages_are_coming(missing.pages);
}

// The same of what nothing uses at this moment: a page whose use is not over would hold up the link
// for as long as that takes.
bool Admission::request_at_once(const Missing& missing, const Lacking& lacking) {
  Bytes wanted = std::max(lacking.pages, lacking.at_once);
  // Where a piece takes long on the link, it is known better by then what goes for the next one.
  if (missing.fetched == missing.pages && core_.takes_long(missing.largest)) {
    if (evictions_.obtainable_at_once() >= missing.largest) return true;
    wanted = std::min(wanted, missing.largest);
  }
  return evictions_.request_bytes_at_once(wanted, missing.sizes) > Bytes{} ||
         evictions_.awaits_victims();
}

// No room comes. Asks the device whether there is more than was thought, and then lets the working
// set exceed the limit, if it may.
Result<Admission::Next> Admission::do_without_room(const WorkingSet& set, Attempt& attempt) {
  if (!std::exchange(attempt.sampled, true) && core_.sampler.sample()) return Next::kLookAgain;
  if (!set.may_shrink && !std::exchange(attempt.settled, true) &&
      core_.sampler.sample(kBeforeRefusal)) {
    return Next::kLookAgain;
  }
  if (core_.counters.errors > attempt.errors_before) return Status::kDeviceError;
  if (core_.page_limit.claim(core_.passthrough.allowed())) return Next::kLookAgain;
  if (core_.must_keep_limit()) {
    if (!set.may_shrink) warn_immovable(attempt);
    return Status::kWorkingSetTooLarge;
  }
  attempt.seeks_no_room = true;
  core_.page_limit.end_lowering();
  if (core_.ledger.is_hard()) warn_overflow(attempt);
  return Next::kLookAgain;
}

bool Admission::rests(const WorkingSet& set, const Missing& missing, Pacing::Rest& rest) {
  const bool is_alone = set.slot != kNoSlot && core_.streams.has_no_work_beside(set.slot);
  return core_.pacing.launch_rests(rest, {missing.pages, missing.fetched, is_alone},
                                   core_.policy.puller(), core_.link_speed(), core_.now());
}

// Waits for a change. When the wait limit has passed, lets the working set exceed the limit once,
// with a warning, rather than fail because of work that does not end (I7).
Status Admission::wait(Bytes needed, Attempt& attempt) {
  const auto deadline =
      attempt.seeks_no_room ? attempt.deadline + core_.options.wait_limit : attempt.deadline;
  if (attempt.rest.lasts(core_.now()) ? core_.rest(deadline) : core_.wait_change(deadline))
    return Status::kOk;
  if (core_.waits.are_over()) return Status::kDeviceError;
  if (attempt.seeks_no_room) {
    core_.warn_gave_up("for buffers of one operation to get in place");
    return Status::kTimedOut;
  }
  attempt.seeks_no_room = true;
  warn_expired(needed);
  return Status::kOk;
}

void Admission::wait_for(const std::vector<BufferId>& prefetched,
                         ResidencyCore::Clock::time_point deadline) {
  const auto is_wanted = [this](BufferId id) REQUIRES(manager_lock) {
    const Buffer& buffer = core_.buffers[id];
    return buffer.live &&
           std::ranges::any_of(buffer.pieces, [](const Piece& piece) REQUIRES(manager_lock) {
             return piece.want == Want::kPrefetch || piece.state() == PieceState::kFetching ||
                    piece.is_on_its_way();
           });
  };
  while (std::any_of(prefetched.begin(), prefetched.end(), is_wanted) &&
         core_.wait_change(deadline)) {
  }
}

// Whether room may still come about by itself: another thread's operation holds buffers between its
// begin and its end, or is bringing one in, or has just used what was to be evicted; or a launch
// still runs that was begun without a buffer which was freed since.
bool Admission::others_move(const WorkingSet& set) const {
  if (core_.has_unsettled_pieces()) return true;
  for (std::uint32_t i = 0; i < core_.buffers.end(); ++i) {
    const Buffer& buffer = core_.buffers[BufferId{i}];
    const bool returns = buffer.is_held_back && !buffer.stays_left_out && buffer.has_pages();
    const bool moves = buffer.is_beginning || buffer.moving > 0 || returns ||
                       (buffer.pins > 0 && !buffer.pinned_forever) ||
                       evictions_.has_victim(buffer, Bytes{});
    if (moves &&
        std::find(set.buffers.begin(), set.buffers.end(), BufferId{i}) == set.buffers.end()) {
      return true;
    }
  }
  return false;
}

Status Admission::refuse(const WorkingSet& set) {
  const Attempt attempt = begin(set);
  if (attempt.working_set > core_.ledger.limit()) {
    note_refusal(set, attempt);
  } else {
    warn_immovable(attempt);
  }
  return Status::kWorkingSetTooLarge;
}

void Admission::give_up(const WorkingSet& set) noexcept {
  for (const BufferId id : set.buffers) {
    for (Piece& piece : core_.buffers[id].pieces) {
      piece.may_exceed_limit = false;
      piece.fetch_status = Status::kOk;
      if (piece.want == Want::kDemand) piece.want = Want::kNobody;
    }
    core_.tell_whereabouts(id);
  }
}

// Keeps it for the summary, and tells the user now.
void Admission::note_refusal(const WorkingSet& set, const Attempt& attempt) {
  const Bytes limit = core_.ledger.limit();
  const Bytes lacking = attempt.working_set - limit;
  const auto number = static_cast<std::uint64_t>(set.kernel);
  const bool is_launch = set.kernel != KernelId{};
  if (!core_.worst_refusal || lacking > core_.worst_refusal->lacking) {
    core_.worst_refusal = {is_launch ? core_.options.kernel_name(set.kernel) : std::string(),
                           attempt.working_set, lacking};
  }
  const bool blames_small_memory = is_small_memory_to_blame(set.kernel);
  core_.warnings.once("too-large " + std::to_string(number), [&] {
    const std::string what =
        is_launch ? "a launch of kernel " + core_.options.kernel_name(set.kernel) : "one operation";
    return what + " needs " + exact_bytes(attempt.working_set) +
           " of managed buffers at once, but the budget leaves " + exact_bytes(limit) + " (" +
           exact_bytes(core_.passthrough.bytes()) + " are pass-through memory, the headroom is " +
           exact_bytes(core_.passthrough.headroom()) + "): raise the budget by at least " +
           exact_bytes(lacking) + " (--gpu-mem, SUPERPIPE_GPU_MEM)" +
           (blames_small_memory ? ", have smaller allocations moved as well (--min-buffer 64K, "
                                  "SUPERPIPE_MIN_BUFFER)"
                                : "") +
           " or allow the overflow (SUPERPIPE_OVERFLOW=allow)";
  });
}

// What is too small to be a buffer has a large part of the budget. A graph needs all that its nodes
// name at once, however small.
bool Admission::is_small_memory_to_blame(KernelId kernel) {
  const Bytes budget = core_.passthrough.budget().value_or(Bytes{});
  return tuning::kLargePassthroughPart * core_.passthrough.counted() >= budget &&
         !core_.options.is_graph(kernel);
}

void Admission::warn_immovable(const Attempt& attempt) {
  const Bytes limit = core_.ledger.limit();
  core_.warnings.once("immovable", [&] {
    return "one launch needs " + exact_bytes(attempt.working_set) +
           " beside buffers that cannot be moved (captured, exported, pinned, or without host "
           "memory), more than the budget leaves: " +
           exact_bytes(limit);
  });
}

void Admission::warn_overflow(const Attempt& attempt) {
  const Bytes limit = core_.ledger.limit();
  core_.warnings.once("overflow", [&] {
    return "one launch needs " + exact_bytes(attempt.working_set) +
           " of managed buffers, more than the budget leaves (" + exact_bytes(limit) +
           "): running over the budget";
  });
}

void Admission::warn_expired(Bytes needed) {
  const std::size_t waiting = evictions_.size();
  core_.warnings.once("expired", [&] {
    return "gave up waiting after " + std::to_string(core_.options.wait_limit.count()) +
           " ms for the work that last used " + std::to_string(waiting) +
           " buffers to complete (does a stream wait for the program?): running over the budget "
           "by up to " +
           exact_bytes(needed);
  });
}

void Admission::warn_not_lowered() {
  const Bytes excess = core_.ledger.excess();
  core_.warnings.once("not-lowered", [&] {
    return "gave up waiting for buffers to leave after the budget shrank (does a stream wait for "
           "the program?): pages exceed it by " +
           exact_bytes(excess);
  });
}

bool Admission::shrink_to(Bytes bytes, std::chrono::milliseconds limit) noexcept {
  if (core_.ledger.pages() <= bytes) return true;
  const auto begun = core_.now();
  const auto deadline = begun + limit;
  // Evictions behind work that does not end do not count as room for long (I7).
  const std::chrono::nanoseconds patience =
      std::min<std::chrono::nanoseconds>(limit / 4, std::chrono::milliseconds{100});
  Turn turn(core_);
  if (!turn.take(deadline)) return false;
  try {
    while (core_.ledger.pages() > bytes && !core_.waits.are_over()) {
      if (pages_.reclaim_one()) continue;
      const bool impatient = core_.now() - begun >= patience;
      const Bytes excess = core_.ledger.pages() - bytes;
      const Bytes room = impatient ? core_.pool->idle_bytes() : core_.coming();
      const bool chosen =
          excess > room &&
          evictions_.request_bytes(excess - room, PagesLacking::of_any_size()) > Bytes{};
      // Nothing can go, and nothing is on its way.
      if (!chosen && core_.coming() == Bytes{} && !core_.has_unsettled_pieces()) break;
      const auto until = impatient ? deadline : std::min(deadline, begun + patience);
      if (!core_.wait_change(until) && core_.now() >= deadline) break;
    }
  } catch (const std::bad_alloc&) {
    // Without host memory no further victims can be found.
  }
  return core_.ledger.pages() <= bytes;
}

}  // namespace superpipe
