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
  worked = fetch_next() || evict_next() || worked;
  if (worked) core_.flush_warnings();
  return worked;
}

bool MoverRounds::is_pending() const {
  const bool measures = core_.stalls.is_waiting() || core_.passes.is_waiting() ||
                        (core_.timeline != nullptr && core_.timeline->is_waiting());
  const bool reclaims =
      core_.ledger.excess() > Bytes{} && (!core_.pool->empty() || core_.cache.bytes() > Bytes{});
  return !core_.fetches.empty() || !evictions_.empty() || measures || reclaims || must_relieve();
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
      if (!is_void) buffer.want = Want::kNobody;
      core_.fetches.pop(entry->want);
      core_.announce_change();
      continue;
    }
    // The program is copying into or out of its slab at this moment. Other fetches wait as well:
    // for as long as the copy takes, or the stream that it waits for.
    if (buffer.host.is_busy()) return false;
    return mover_.fetch(entry->buffer.id, entry->want == Want::kDemand);
  }
  return false;
}

bool MoverRounds::evict_next() {
  const auto id = evictions_.take_next();
  if (id) mover_.evict(*id);
  return id.has_value();
}

}  // namespace superpipe
