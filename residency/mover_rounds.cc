#include "residency/mover_rounds.h"

#include <memory>
#include <new>
#include <utility>
#include <vector>

namespace superpipe {

bool MoverRounds::run() noexcept {
  bool worked = poll_meters();
  if (core_.passthrough.is_due(core_.now())) worked = core_.sample_passthrough() || worked;
  if (core_.ledger.excess() > Bytes{}) worked = pages_.reclaim_one() || worked;
  if (must_relieve()) worked = relieve() || worked;
  worked = fetch_next() || evict_next() || pull() || worked;
  if (worked) core_.flush_warnings();
  return worked;
}

bool MoverRounds::is_pending() const {
  const bool measures = core_.stalls.is_waiting() || core_.passes.is_waiting() ||
                        (core_.timeline != nullptr && core_.timeline->is_waiting());
  const bool reclaims =
      core_.ledger.excess() > Bytes{} && (!core_.pool->empty() || core_.cache.bytes() > Bytes{});
  return !core_.fetches.empty() || !evictions_.empty() || pulls_ || measures || reclaims ||
         must_relieve();
}

// Brings the meters up to date. Without host memory for that they are brought up to date later, or
// leave something out.
bool MoverRounds::poll_meters() noexcept {
  try {
    bool worked = poll(core_.stalls);
    worked = poll(core_.passes) || worked;
    if (core_.timeline != nullptr) worked = poll(*core_.timeline) || worked;
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
// move the same content every time.
bool MoverRounds::must_relieve() const {
  return core_.ledger.excess() > core_.coming() && core_.must_keep_limit() &&
         relieved_in_vain_ != core_.samples;
}

// Requests evictions of what exceeds the limit. Where nobody can go, because all are pinned, or
// their streams are being captured, tries again at the next sample. @return whether any was.
bool MoverRounds::relieve() noexcept {
  const Bytes lacking = core_.ledger.excess() - core_.coming();
  // Once for each sample, buffers that could not go before are asked again.
  if (std::exchange(relieved_at_, core_.samples) != core_.samples) ++core_.turns;
  try {
    if (evictions_.request_bytes(lacking) > Bytes{}) return true;
  } catch (const std::bad_alloc&) {
    // Without host memory no victim can be found now.
  }
  relieved_in_vain_ = core_.samples;
  return false;
}

// Carries out the first fetch that is still wanted: demands in order, then prefetches.
bool MoverRounds::fetch_next() {
  while (const auto entry = core_.fetches.front()) {
    Buffer& buffer = core_.buffers[entry->buffer.id];
    const bool is_void =
        buffer.generation != entry->buffer.generation || buffer.want != entry->want;
    if (is_void || buffer.place != Place::kOut) {
      if (!is_void) {
        buffer.want = Want::kNobody;
        core_.tell_whereabouts(entry->buffer.id);
      }
      core_.fetches.pop(entry->want);
      core_.announce_change();
      continue;
    }
    // The program is copying into or out of its slab at this moment. Other fetches wait as well:
    // for as long as the copy takes, or the stream that it waits for.
    if (buffer.host.is_busy()) return false;
    if (!mover_.fetch(entry->buffer.id, entry->want == Want::kDemand)) return false;
    if (AutoPolicy* const policy = core_.policy.puller()) {
      if (buffer.place == Place::kIn) {
        note_under_way(buffer);
      } else if (entry->want == Want::kPrefetch) {
        failed_at_ = policy->launches();
      }
    }
    return true;
  }
  return false;
}

// Asks policy for the next transfer, where it wants to be asked. @return whether there is one, or
// may be one at once.
bool MoverRounds::pull() {
  pulls_ = false;
  if (core_.policy.puller() == nullptr || !core_.ledger.is_under_pressure()) return false;
  pulls_ = true;
  core_.pull_awaits_launch = false;
  if (has_link_enough()) return false;
  try {
    awaits_uses_ = lacks_room_ && completion_.advance();
  } catch (const std::bad_alloc&) {
    awaits_uses_ = false;  // fewer uses are known to have completed
  }
  AutoPolicy* const policy = core_.puller();
  if (policy == nullptr || failed_at_ == policy->launches()) {
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
  } catch (const std::bad_alloc&) {
    await_launch();
  }
  return false;
}

// Finds out what policy wants next, and has it fetched.
MoverRounds::Next MoverRounds::want_next(AutoPolicy& policy) {
  const auto target = policy.next_target();
  if (!target) {
    lacks_room_ = awaits_uses_ = false;
    // Looking on may take long. Launches may have the mutex before.
    return policy.is_looking() ? Next::kAskAgain : Next::kNothing;
  }
  Buffer& buffer = core_.buffers[target->id];
  const auto is_missing = [&buffer]() REQUIRES(manager_lock) {
    return buffer.live && buffer.place == Place::kOut && buffer.want == Want::kNobody;
  };
  if (!is_missing()) return Next::kNothing;  // it is about to leave, and can come back only then
  const WantedBuffer wanted{target->id, buffer.generation};
  const Bytes lacking =
      buffer.page ? Bytes{} : saturating_subtract(buffer.footprint, core_.obtainable());
  const bool knows_victims = std::exchange(lacks_room_, lacking > Bytes{});
  if (lacks_room_ && !knows_victims) return Next::kWanted;  // what has completed is asked for first
  if (lacks_room_ && evictions_.request_bytes_used_after(target->next_use, lacking) == Bytes{}) {
    return Next::kNothing;
  }
  // Requesting evictions opens the mutex.
  if (buffer.generation != wanted.generation || !is_missing()) return Next::kAskAgain;
  core_.fetches.push(Want::kPrefetch, wanted);
  buffer.want = Want::kPrefetch;
  core_.tell_whereabouts(wanted.id);
  return Next::kWanted;
}

// Policy expects other launches than when it wanted what is still waiting for a page.
void MoverRounds::take_back_prefetches() {
  while (const auto wanted = core_.fetches.take_prefetch()) {
    Buffer& buffer = core_.buffers[wanted->id];
    if (buffer.generation != wanted->generation || buffer.want != Want::kPrefetch) continue;
    buffer.want = Want::kNobody;
    core_.tell_whereabouts(wanted->id);
  }
}

// Policy wants nothing now, and will not before the next launch, or before a use of a victim has
// completed. While launches come, it is asked again soon, so that they need not wake the worker;
// once there was none, the next one does.
void MoverRounds::rest_from_pulling() {
  const std::uint64_t launches = core_.policy.puller()->launches();
  if (std::exchange(rested_at_, launches) == launches && !awaits_uses_) await_launch();
}

// The next launch wakes the worker, unless other work does so before.
void MoverRounds::await_launch() {
  pulls_ = false;
  core_.pull_awaits_launch = true;
}

// Without host memory to note it, the link seems to have less to do than it has.
void MoverRounds::note_under_way(const Buffer& buffer) noexcept {
  try {
    under_way_.add(buffer.ready, buffer.footprint);
  } catch (const std::bad_alloc&) {
  }
}

// Asks the device about the oldest transfer alone: they end in order.
bool MoverRounds::has_link_enough() {
  while (under_way_.is_enough()) {
    const EventRef oldest = under_way_.oldest();
    Result<bool> complete = false;
    {
      const Unlocked unlocked(core_.mutex);
      complete = core_.events.is_complete(oldest);
    }
    if (complete.ok() && !*complete) return true;
    under_way_.drop_oldest();
  }
  return false;
}

bool MoverRounds::evict_next() {
  const auto id = evictions_.take_next();
  if (id) mover_.evict(*id);
  return id.has_value();
}

}  // namespace superpipe
