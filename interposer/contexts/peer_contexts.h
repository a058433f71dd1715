// Which devices the program has given access to the memory of its contexts.
#pragma once

#include <cstdint>
#include <mutex>
#include <new>
#include <vector>

#include "interposer/driver/cuda_api.h"

namespace superpipe {

/// Devices, a bit for each ordinal.
using DeviceMask = std::uint64_t;
inline constexpr int kMostDevices = 64;

/// The mask of one device; none for an ordinal that no mask can have.
[[nodiscard]] constexpr DeviceMask mask_of(int device) noexcept {
  return device >= 0 && device < kMostDevices ? DeviceMask{1} << device : DeviceMask{0};
}

/// Follows cuCtxEnablePeerAccess and cuCtxDisablePeerAccess. Calls no driver function. Thread-safe.
///
/// It errs towards access: what a context that was destroyed could access stays noted, and where
/// host memory is out, a device counts as the peer of all contexts.
class PeerContexts {
 public:
  /// A context of `peer` may access the memory of `owner` from now on.
  void on_enabled(CUcontext owner, CUdevice peer) noexcept {
    const std::lock_guard lock(mutex_);
    try {
      grants_.push_back({owner, peer});
    } catch (const std::bad_alloc&) {
      peers_of_all_ |= mask_of(peer);
    }
  }
  /// It may not any more.
  void on_disabled(CUcontext owner, CUdevice peer) noexcept {
    const std::lock_guard lock(mutex_);
    for (auto grant = grants_.begin(); grant != grants_.end(); ++grant) {
      if (grant->owner != owner || grant->peer != peer) continue;
      grants_.erase(grant);
      return;
    }
  }

  /// The devices whose contexts may access the memory of `owner`.
  [[nodiscard]] DeviceMask of(CUcontext owner) const noexcept {
    const std::lock_guard lock(mutex_);
    DeviceMask peers = peers_of_all_;
    for (const Grant& grant : grants_) {
      if (grant.owner == owner) peers |= mask_of(grant.peer);
    }
    return peers;
  }

 private:
  /// One for each context of `peer` that may.
  struct Grant {
    CUcontext owner;
    CUdevice peer;
  };

  mutable std::mutex mutex_;
  std::vector<Grant> grants_;    ///< guarded by mutex_
  DeviceMask peers_of_all_ = 0;  ///< guarded by mutex_
};

}  // namespace superpipe
