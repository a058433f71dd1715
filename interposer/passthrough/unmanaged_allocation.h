// Allocations and frees that are left to the driver but count against the budget.
#pragma once

#include "interposer/context_registry.h"
#include "interposer/driver/cuda_api.h"
#include "interposer/passthrough/device_changes.h"

namespace superpipe {

/// Lets the driver make `allocation` through `call`, counted against the
/// budget of `managed` (null: not counted); `remember` is called if it did, and has to see to it
/// that the free gives the bytes back. If the device is full, gives cached pages back and asks once
/// more.
/// @return what the driver said; CUDA_ERROR_OUT_OF_MEMORY if the budget has no room.
template <typename Call, typename Remember>
CUresult allocate_unmanaged(ManagedContext* managed, const UnmanagedMemory::Allocation& allocation,
                            const Call& call, const Remember& remember) noexcept {
  if (managed == nullptr || allocation.size > managed->device_total()) return call();
  const DeviceChanges::Section section;
  if (!managed->unmanaged().take(allocation)) return CUDA_ERROR_OUT_OF_MEMORY;
  CUresult result = call();
  if (result == CUDA_ERROR_OUT_OF_MEMORY) {
    managed->residency().trim();
    result = call();
  }
  if (allocation.pool != nullptr) managed->unmanaged().settle(allocation.pool);
  if (result == CUDA_SUCCESS) {
    remember(*managed);
  } else {
    managed->unmanaged().give_back(allocation);
  }
  return result;
}

/// Lets the driver free through `call` what was remembered under `key`.
///
/// It is forgotten before the driver frees it: from then on another thread can be given an
/// allocation of the same key.
template <typename Call>
CUresult free_unmanaged(ManagedContext* managed, std::uint64_t key, const Call& call) noexcept {
  const DeviceChanges::Section section;
  const auto allocation = managed == nullptr ? std::nullopt : managed->unmanaged().forget(key);
  const CUresult result = call();
  if (!allocation) return result;
  if (result == CUDA_SUCCESS) {
    managed->unmanaged().give_back(*allocation);
  } else {
    managed->unmanaged().remember(key, *allocation);
  }
  return result;
}

}  // namespace superpipe
