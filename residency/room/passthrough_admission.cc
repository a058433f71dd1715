#include "residency/room/passthrough_admission.h"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "policy/budget.h"
#include "residency/tuning.h"

namespace superpipe {

bool PassthroughAdmission::begin_allocation(Bytes size) noexcept {
  if (!admits(size, Asker::kAllocation)) return false;
  if (core_.passthrough.outgrows_headroom(size) && !core_.options.overflow_allowed) {
    leave_room_for(size);
  } else {
    core_.passthrough.begin_allocation(size);
  }
  return true;
}

void PassthroughAdmission::end_allocation(Bytes size, bool made) noexcept {
  const bool wants_sample = core_.passthrough.end_allocation(size, made);
  if (wants_sample && core_.samples_passthrough()) wake_for_sample();
}

void PassthroughAdmission::end_change(PassthroughChange change) noexcept {
  const bool is_first = core_.passthrough.end_change(change);
  if (is_first && core_.samples_passthrough()) wake_for_sample();
}

// Begins an allocation. Pages leave the headroom free, of which a new allocation may not find
// enough any more. A sample counts what was taken of it as used, and pages make it free again. Work
// that they wait for may wait for the program (I7): then the allocation exceeds the budget until
// they have left.
void PassthroughAdmission::leave_room_for(Bytes size) noexcept {
  const ManagerLock lock(core_.mutex);
  const bool may_wait = !core_.waits.are_over() && core_.ledger.is_hard();
  if (may_wait) (void)core_.sampler.sample_once();
  core_.passthrough.begin_allocation(size);
  if (!may_wait) return;
  core_.page_limit.refresh();
  const Bytes left = saturating_subtract(core_.ledger.limit(), core_.passthrough.beyond_room());
  const auto patience = std::chrono::ceil<std::chrono::milliseconds>(core_.options.patience());
  (void)admission_.shrink_to(left, patience);
  core_.flush_warnings();
}

bool PassthroughAdmission::admits(Bytes size, Asker asker) noexcept {
  if (core_.passthrough.admits(size) || core_.options.overflow_allowed) return true;
  const ManagerLock lock(core_.mutex);
  if (core_.waits.are_over() || !core_.ledger.is_hard()) return true;
  // Frees are not counted: only the device knows how much pass-through memory there is now.
  (void)core_.sampler.sample();
  if (core_.passthrough.admits(size)) return true;
  (void)core_.sampler.sample(MemorySampler::Settling::kBeforeRefusal);
  if (core_.passthrough.admits(size)) return true;
  warn_of_refusal(size, asker);
  return false;
}

void PassthroughAdmission::warn_of_refusal(Bytes size, Asker asker) {
  const bool is_graph = asker == Asker::kGraph;
  if (!is_graph) ++core_.counters.refused_allocations;
  core_.warnings.once(is_graph ? "graph memory" : "passthrough", [&] {
    const Bytes passthrough = core_.passthrough.bytes();
    const bool is_large =
        tuning::kLargePassthroughPart * passthrough >= core_.passthrough.budget().value_or(Bytes{});
    std::string text = (is_graph ? "memory of " + exact_bytes(size) + " that a graph allocates"
                                 : "a pass-through allocation of " + exact_bytes(size)) +
                       " fails: " + exact_bytes(passthrough) +
                       " are pass-through memory already, and the budget has no room for more: "
                       "raise it (--gpu-mem, SUPERPIPE_GPU_MEM)";
    // Small allocations are not to blame where there is little of them, nor for a graph's memory.
    if (!is_graph && is_large) {
      text += ", or have smaller allocations moved as well (--min-buffer, SUPERPIPE_MIN_BUFFER)";
    }
    return text;
  });
  core_.flush_warnings();
}

// The limit follows at once what is known to have grown; the worker asks the device.
void PassthroughAdmission::wake_for_sample() noexcept {
  const ManagerLock lock(core_.mutex);
  if (core_.waits.are_over()) return;
  core_.page_limit.refresh();
  core_.ledger.note_peak();
  core_.wake_worker();
}

bool PassthroughAdmission::begin_foreseen(Bytes size) noexcept {
  if (!admits(size, Asker::kGraph)) return false;
  core_.passthrough.begin_foreseen(size);
  const ManagerLock lock(core_.mutex);
  if (core_.waits.are_over()) return true;
  core_.page_limit.refresh();
  (void)admission_.shrink_to(core_.ledger.limit(), core_.options.wait_limit);
  core_.flush_warnings();
  return true;
}

void PassthroughAdmission::end_foreseen(Bytes size, bool taken) noexcept {
  core_.passthrough.end_foreseen(size, taken);
  if (taken) return;
  const ManagerLock lock(core_.mutex);
  if (!core_.waits.are_over()) core_.page_limit.refresh();
}

bool PassthroughAdmission::make_room(Bytes size) noexcept {
  const ManagerLock lock(core_.mutex);
  if (core_.waits.are_over()) return false;
  const Bytes before = core_.ledger.pages();
  const bool made =
      admission_.shrink_to(saturating_subtract(before, size), core_.options.wait_limit);
  core_.flush_warnings();
  return made && before > Bytes{};
}

}  // namespace superpipe
