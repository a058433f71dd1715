// Calls that take pass-through memory of the managed device, or give it back.
#pragma once

#include "interposer/contexts/context_registry.h"
#include "interposer/driver/cuda_api.h"
#include "policy/units.h"

namespace superpipe {

/// Has the driver make an allocation of `size` bytes through `call`, and counts it against the
/// budget of `managed`, once it is made. Null: the memory is not on the managed device, and nothing
/// is counted.
///
/// Asks the driver nothing else. Waits only where the driver is out of memory: managed pages are
/// then given back, and the driver is asked once more.
/// @return what the driver said; CUDA_ERROR_OUT_OF_MEMORY if the budget has no room even with every
/// managed buffer evicted. See docs/residency.md, "Pass-through memory".
template <typename Call>
CUresult allocate_passthrough(ManagedContext* managed, Bytes size, const Call& call) noexcept {
  // No eviction makes room for more than the whole device: the driver names the error.
  if (managed == nullptr || size > managed->device_total()) return call();
  ResidencyManager& residency = managed->residency();
  if (!residency.begin_passthrough_allocation(size)) return CUDA_ERROR_OUT_OF_MEMORY;
  CUresult result = call();
  residency.end_passthrough_allocation(size, result == CUDA_SUCCESS);
  const bool again = result == CUDA_ERROR_OUT_OF_MEMORY && residency.make_room(size) &&
                     residency.begin_passthrough_allocation(size);
  if (again) {
    result = call();
    residency.end_passthrough_allocation(size, result == CUDA_SUCCESS);
  }
  return result;
}

/// Calls the driver through `call`, by which pass-through memory changes by an unknown amount: a
/// free, a pool that is trimmed, code that is loaded. Residency's worker asks the device soon.
/// Never waits. @return what `call` returned.
template <typename Call>
auto change_passthrough(PassthroughChange change, const Call& call) noexcept {
  ManagedContext* const managed = ContextRegistry::managed();
  if (managed == nullptr) return call();
  managed->residency().begin_passthrough_change(change);
  const auto result = call();
  managed->residency().end_passthrough_change(change);
  return result;
}

/// Submits work through `submit(ask)`, which has `ask(call)` call the driver: that takes about
/// `size` bytes of the managed device, and perhaps more, for what the program has described before.
/// Buffers leave room for them first. Where the driver is out of memory, managed pages are given
/// back, and `call` alone is made once more.
///
/// Waits for that, as ResidencyManager::begin_foreseen_growth() does. @return as
/// allocate_passthrough().
template <typename Submit>
CUresult grow_passthrough(ManagedContext& managed, Bytes size, const Submit& submit) noexcept {
  ResidencyManager& residency = managed.residency();
  if (!residency.begin_foreseen_growth(size)) return CUDA_ERROR_OUT_OF_MEMORY;
  const CUresult result = submit([&](const auto& call) {
    const CUresult first = change_passthrough(PassthroughChange::kGrowth, call);
    if (first != CUDA_ERROR_OUT_OF_MEMORY || !residency.make_room(size)) return first;
    return change_passthrough(PassthroughChange::kGrowth, call);
  });
  residency.end_foreseen_growth(size, result == CUDA_SUCCESS);
  return result;
}

}  // namespace superpipe
