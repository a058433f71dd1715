// Buffers that the user wants to stay on the device.
#pragma once

#include <cstdint>
#include <optional>

#include "residency/manager_mutex.h"
#include "residency/residency_core.h"
#include "residency/result.h"
#include "residency/uses/buffer_lifetimes.h"
#include "residency/uses/use_tracker.h"

namespace superpipe {

/// Allocates buffers, and pins those that are on the user's list (ResidencyOptions::pins) before
/// the program knows their address. A part of the manager.
class ListedBuffers {
 public:
  ListedBuffers(ResidencyCore& core, UseTracker& uses, BufferLifetimes& lifetimes)
      : core_(core), uses_(uses), lifetimes_(lifetimes) {}

  /// ResidencyManager::allocate(). A buffer that cannot be pinned is given back, and its number.
  Result<Address> allocate(Bytes size, std::optional<StreamHandle> stream) EXCLUDES(manager_lock);

 private:
  std::uint64_t number_of(Address address) EXCLUDES(manager_lock);
  void take_back(std::uint64_t number) EXCLUDES(manager_lock);

  ResidencyCore& core_;
  UseTracker& uses_;
  BufferLifetimes& lifetimes_;
};

}  // namespace superpipe
