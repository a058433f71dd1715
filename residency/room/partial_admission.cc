#include "residency/room/partial_admission.h"

#include <algorithm>
#include <cstdint>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "policy/budget.h"
#include "policy/pin_list.h"

namespace superpipe {

Result<std::size_t> PartialAdmission::bring_in(const Request& request, const Decision& decision) {
  std::size_t kept = request.buffers.size();
  Status status = Status::kOutOfHostMemory;
  try {
    status = keep_what_fits(request, decision, kept);
  } catch (const std::bad_alloc&) {
    // It stays out of host memory.
  }
  const auto left_out = request.buffers.subspan(kept);
  for (const BufferId id : left_out) {
    ++core_.buffers[id].pins;
    evictions_.revoke(id);
  }
  if (status != Status::kOk) {
    end(left_out, false, nullptr);
    return status;
  }
  if (!left_out.empty()) say_left_out(request, kept);
  return left_out.size();
}

// Leaves `kept` in place, with the others unpinned behind them.
Status PartialAdmission::keep_what_fits(const Request& request, const Decision& decision,
                                        std::size_t& kept) {
  const std::span<BufferId> buffers = request.buffers;
  const std::size_t certain = request.certain;
  const KernelId kernel = request.kernel;
  const bool may_shrink = request.may_shrink || kept > certain;
  Status status =
      admission_.bring_in({buffers, kernel, may_shrink, request.slot, request.turn}, decision);
  if (status != Status::kWorkingSetTooLarge || kept == certain) return status;
  // A kernel that does use what is left out fails.
  const auto settling = certain == 0 ? MemorySampler::Settling::kBeforeRefusal
                                     : MemorySampler::Settling::kBeforeWorse;
  if (core_.passthrough.wants_own(core_.now(), settling) && core_.sampler.sample(settling)) {
    admission_.give_up({buffers, kernel});
    status = admission_.bring_in({buffers, kernel, true, request.slot, request.turn}, decision);
    if (status != Status::kWorkingSetTooLarge) return status;
  }
  overfull_.note(kernel, buffers.first(certain), buffers.subspan(certain));
  const auto is_suspect = [&](BufferId id)
                              REQUIRES(manager_lock) { return overfull_.is_suspect(kernel, id); };
  while (status == Status::kWorkingSetTooLarge && kept > certain) {
    admission_.give_up({buffers.first(kept), kernel});
    kept = leave_out(buffers.first(kept), certain, kernel);
    // Hardly all words of a launch are left over: it goes on without any buffer only if each is a
    // suspect.
    const bool is_refused = kept == 0 && !std::ranges::all_of(buffers, is_suspect);
    status = is_refused ? admission_.refuse({buffers, kernel})
                        : admission_.bring_in({buffers.first(kept), kernel, kept > certain,
                                               request.slot, request.turn},
                                              decision);
  }
  return status == Status::kOk ? stay_out(buffers.subspan(kept), kernel) : status;
}

// Sorts what is left out behind the rest, and unpins it: of what comes behind the `certain` first
// ones those that are likely left over, then the largest, as few as do not fit the limit with them
// or, if all fit and there is no room all the same, all. @return how many buffers are kept.
std::size_t PartialAdmission::leave_out(std::span<BufferId> buffers, std::size_t certain,
                                        KernelId kernel) {
  const auto footprint = [this](BufferId id)
                             REQUIRES(manager_lock) { return core_.buffers[id].footprint; };
  Bytes room = core_.ledger.limit();
  for (const BufferId id : buffers.first(certain)) room = saturating_subtract(room, footprint(id));
  const auto others = buffers.subspan(certain);
  std::ranges::stable_sort(others, {}, footprint);
  const auto is_suspect = [this, kernel](BufferId id)
                              REQUIRES(manager_lock) { return overfull_.is_suspect(kernel, id); };
  std::ranges::stable_sort(others, {}, is_suspect);
  std::size_t kept = certain;
  for (std::size_t i = certain; i < buffers.size(); ++i) {
    if (footprint(buffers[i]) > room) continue;
    room -= footprint(buffers[i]);
    std::swap(buffers[kept++], buffers[i]);
  }
  if (kept == buffers.size()) kept = certain;
  for (const BufferId id : buffers.subspan(kept)) {
    --core_.buffers[id].pins;
    left_out_.begin(id);
  }
  return kept;
}

// Waits until nothing of `left_out` is on its way in. @return kTimedOut.
Status PartialAdmission::stay_out(std::span<const BufferId> left_out, KernelId kernel) {
  const auto deadline = core_.now() + core_.options.wait_limit;
  const auto is_moving = [this](BufferId id)
                             REQUIRES(manager_lock) { return core_.buffers[id].moving > 0; };
  while (std::ranges::any_of(left_out, is_moving)) {
    if (!core_.wait_change(deadline)) return Status::kTimedOut;
  }
  left_out_.prepare_end(left_out, kernel);
  return Status::kOk;
}

void PartialAdmission::say_left_out(const Request& request, std::size_t kept) noexcept try {
  ++core_.counters.left_out_launches;
  const auto text = [&]() NO_THREAD_SAFETY_ANALYSIS {
    Bytes all;
    for (const BufferId id : request.buffers) all += core_.buffers[id].footprint;
    std::vector<std::uint64_t> numbers;
    for (const BufferId id : request.buffers.subspan(kept))
      numbers.push_back(core_.buffers[id].number);
    std::ranges::sort(numbers);
    return "a launch of kernel " + core_.options.kernel_name(request.kernel) + " names " +
           exact_bytes(all) + " of managed buffers, but the budget leaves " +
           exact_bytes(core_.ledger.limit()) + ": it runs without buffers " +
           pin_list_text(numbers) +
           ", which only words in its structs name that are mostly left over from earlier use; a "
           "kernel that does use them fails with an illegal address, and needs a budget larger "
           "by " +
           exact_bytes(saturating_subtract(all, core_.ledger.limit())) +
           " (--gpu-mem, SUPERPIPE_GPU_MEM)";
  };
  core_.warnings.once("left out " + std::to_string(static_cast<std::uint64_t>(request.kernel)),
                      text);
} catch (const std::bad_alloc&) {
  // It goes unsaid.
}

void PartialAdmission::end(std::span<const BufferId> left_out, bool submitted,
                           const EventRef& end) noexcept {
  for (const BufferId id : left_out) left_out_.end(id, submitted, end);
}

}  // namespace superpipe
