// Calls that are left to the driver and take, or give back, memory of the managed device.
#pragma once

#include "interposer/context_registry.h"
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
/// managed buffer evicted. See docs/residency.md, "What is left to the driver".
template <typename Call>
CUresult allocate_passthrough(ManagedContext* managed, Bytes size, const Call& call) noexcept {
  // No eviction makes room for more than the whole device: the driver names the error.
  if (managed == nullptr || size > managed->device_total()) return call();
  ResidencyManager& residency = managed->residency();
  if (!residency.admits_passthrough(size)) return CUDA_ERROR_OUT_OF_MEMORY;
  CUresult result = call();
  if (result == CUDA_ERROR_OUT_OF_MEMORY && residency.make_room(size)) result = call();
  if (result == CUDA_SUCCESS) residency.on_passthrough_allocation(size);
  return result;
}

/// Calls the driver through `call`, which changes by an unknown amount how much of the device is
/// left to it: a free, a pool that is trimmed or destroyed, code that is loaded or unloaded.
/// Residency's worker asks the device soon. Never waits. @return what the driver said.
template <typename Call>
CUresult change_passthrough(const Call& call) noexcept {
  const CUresult result = call();
  ManagedContext* const managed = ContextRegistry::managed();
  if (managed != nullptr && result == CUDA_SUCCESS) managed->residency().on_passthrough_change();
  return result;
}

}  // namespace superpipe
