#include "residency/use_completion.h"

#include <algorithm>
#include <bit>
#include <cstdint>

namespace superpipe {

bool UseCompletion::advance() {
  std::uint64_t unmarked = 0;
  for (Slot slot = 0; slot < core_.streams.end(); ++slot) {
    const StreamTable::Entry& entry = core_.streams.entry(slot);
    if (!entry.used || entry.last_use <= entry.completed) continue;
    if (entry.awaited != nullptr && !ask(slot)) continue;
    if (entry.last_use > entry.completed && core_.streams.recordable(slot)) {
      unmarked |= std::uint64_t{1} << slot;
    }
  }
  if (unmarked != 0) streams_.mark_ends(unmarked);
  bool awaits = false;
  for (Slot slot = 0; slot < core_.streams.end(); ++slot) {
    StreamTable::Entry& entry = core_.streams.entry(slot);
    const bool is_newer = entry.latest != nullptr && entry.latest->seq > entry.completed;
    if (entry.used && entry.awaited == nullptr && is_newer) entry.awaited = entry.latest;
    awaits = awaits || entry.awaited != nullptr;
  }
  return awaits;
}

// @return whether what was awaited on the slot has completed, or will not.
bool UseCompletion::ask(Slot slot) {
  const EventRef awaited = core_.streams.entry(slot).awaited;
  Result<bool> complete = false;
  {
    const Unlocked unlocked(core_.mutex);
    complete = core_.events.is_complete(awaited);
  }
  StreamTable::Entry& entry = core_.streams.entry(slot);
  if (entry.awaited != awaited) return false;  // the slot is another stream's by now
  if (complete.ok() && !*complete) return false;
  entry.awaited = nullptr;
  if (complete.ok()) {
    entry.completed = std::max(entry.completed, awaited->seq);
  } else if (entry.latest == awaited) {
    entry.latest = nullptr;  // it proves nothing, and another has to be recorded
  }
  return true;
}

bool UseCompletion::is_over(const Buffer& buffer) const {
  for (std::uint64_t left = buffer.uses; left != 0; left &= left - 1) {
    const auto slot = static_cast<Slot>(std::countr_zero(left));
    if (!core_.streams.is_over(slot, buffer.last_use)) return false;
  }
  return true;
}

}  // namespace superpipe
