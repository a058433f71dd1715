#include "residency/transfer/use_completion.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <new>

#include "residency/tuning.h"

namespace superpipe {

bool UseCompletion::advance() {
  std::uint64_t unmarked = 0;
  bool progressed = false;
  for (Slot slot = 0; slot < core_.streams.end(); ++slot) {
    while (has_completed_next(slot)) progressed = true;
    const StreamTable::Entry& entry = core_.streams.entry(slot);
    if (entry.used && entry.last_use > core_.streams.awaited_to(slot) &&
        core_.streams.recordable(slot) && entry.awaited.size() < tuning::kMarksOfLooks) {
      unmarked |= std::uint64_t{1} << slot;
    }
  }
  if (unmarked != 0) streams_.mark_ends(unmarked);
  if (ask_shared()) progressed = true;
  awaiting_ = core_.streams.shared().can_be_asked();
  for (Slot slot = 0; slot < core_.streams.end(); ++slot) {
    if (core_.streams.entry(slot).used) core_.streams.await_latest(slot);
    awaiting_ = awaiting_ || !core_.streams.entry(slot).awaited.empty();
  }
  if (progressed) core_.waits.announce_to_waiters();
  return progressed;
}

bool UseCompletion::note_launch(Slot slot, std::span<const BufferId> buffers) {
  if (slot >= StreamTable::kShared) return false;
  StreamTable::Entry& entry = core_.streams.entry(slot);
  // What was used since the last mark but one is in constant use: it will not be a victim.
  const std::size_t awaited = entry.awaited.size();
  const std::uint64_t last_but_one =
      awaited < 2 ? entry.completed : entry.awaited[awaited - 2]->seq;
  for (const BufferId id : buffers) {
    const Buffer& buffer = core_.buffers[id];
    if (buffer.last_use <= last_but_one) entry.unawaited += buffer.footprint;
  }
  const Bytes enough{core_.ledger.limit().count() / tuning::kMarksOfRoom};
  return entry.unawaited > enough && awaited < StreamTable::kMostAwaited;
}

void UseCompletion::mark_end(Slot slot) noexcept {
  // Where a mark cannot be made, the next one covers what it would have.
  core_.streams.entry(slot).unawaited = {};
  try {
    // A stream that only its own thread can mark has an event behind each use.
    if (core_.streams.recordable(slot)) streams_.mark_ends(std::uint64_t{1} << slot);
  } catch (const std::bad_alloc&) {
    return;
  }
  core_.streams.await_latest(slot);
  awaiting_ = true;
}

// Asks about the event that is awaited next on the slot. @return whether it has completed, or will
// not.
bool UseCompletion::has_completed_next(Slot slot) {
  if (core_.streams.entry(slot).awaited.empty()) return false;
  const EventRef next = core_.streams.entry(slot).awaited.front();
  Result<bool> complete = false;
  {
    const Unlocked unlocked(core_.mutex);
    complete = core_.events.is_complete(next);
  }
  StreamTable::Entry& entry = core_.streams.entry(slot);
  // The slot may be another stream's by now.
  if (entry.awaited.empty() || entry.awaited.front() != next) return false;
  if (complete.ok() && !*complete) return false;
  entry.awaited.erase(entry.awaited.begin());
  if (complete.ok()) {
    entry.completed = std::max(entry.completed, next->seq);
  } else if (entry.latest == next) {
    entry.latest = nullptr;  // it proves nothing, and another has to be recorded
  }
  return true;
}

// Asks about uses of the shared slot: about so many at a time, however many streams share it. Those
// that were asked about come behind the others the next time, for the first may never end.
// @return whether one has completed.
bool UseCompletion::ask_shared() {
  if (core_.streams.shared().is_over()) return false;
  const std::vector<EventRef> events = core_.streams.shared().next_to_ask(tuning::kMarksOfLooks);
  bool progressed = false;
  const Unlocked unlocked(core_.mutex);
  for (const EventRef& event : events) {
    const auto complete = core_.events.is_complete(event);
    progressed = progressed || (complete.ok() && *complete);
  }
  return progressed;
}

bool UseCompletion::is_over(const Buffer& buffer) const {
  for (std::uint64_t left = buffer.uses; left != 0; left &= left - 1) {
    const auto slot = static_cast<Slot>(std::countr_zero(left));
    const bool is_over = slot == StreamTable::kShared
                             ? buffer.rare->marked.is_over()
                             : core_.streams.is_over(slot, buffer.last_use);
    if (!is_over) return false;
  }
  return true;
}

Bytes UseCompletion::busy_cached() {
  core_.cache.settle(
      [this](BufferId id) NO_THREAD_SAFETY_ANALYSIS { return is_over(core_.buffers[id]); },
      [this](BufferId id) NO_THREAD_SAFETY_ANALYSIS { return core_.buffers[id].bytes_in_place(); });
  return core_.cache.busy_bytes();
}

bool UseCompletion::is_awaited(const Buffer& buffer) const {
  for (std::uint64_t left = buffer.uses; left != 0; left &= left - 1) {
    const auto slot = static_cast<Slot>(std::countr_zero(left));
    if (slot == StreamTable::kShared) {
      const SharedUses& marked = buffer.rare->marked;
      if (marked.is_lost() || marked.lacks_event()) return false;
      continue;  // each has an event, which is asked
    }
    if (core_.streams.is_over(slot, buffer.last_use)) continue;
    if (core_.streams.entry(slot).awaited.empty()) return false;
  }
  return true;
}

}  // namespace superpipe
