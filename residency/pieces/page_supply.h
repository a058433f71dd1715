// Physical pages within the limit: idle ones, new ones, and those that freed buffers keep.
#pragma once

#include <vector>

#include "residency/manager_mutex.h"
#include "residency/pieces/page_pool.h"
#include "residency/residency_core.h"
#include "residency/result.h"

namespace superpipe {

/// Finds pages for buffers, and makes room by taking pages from cached buffers and destroying idle
/// ones.
///
/// A part of the manager, under its mutex, which it opens for each call of the device. Waits for
/// samples of the device that are under way, and for nothing more.
class PageSupply {
 public:
  explicit PageSupply(ResidencyCore& core) : core_(core) {}

  /// What the caller does if there is no page.
  enum class Terms {
    kMayWait,    ///< asks again, so that a page which is about to come back need not be created
    kAhead,      ///< as kMayWait, but leaves in the cache what was freed lately
    kAtOnce,     ///< does without one
    kOverLimit,  ///< exceeds the limit
  };
  /// A page of exactly `size`, counted within the limit unless `terms` say otherwise.
  /// @return kNotYet; kOutOfDeviceMemory: the device is full and nothing is coming free;
  /// kOutOfHostMemory; kDeviceError.
  Result<Page> acquire(Bytes size, Terms terms) REQUIRES(manager_lock);

  /// Makes one step towards room: a cached buffer's page becomes idle or, where there is none, an
  /// idle page is destroyed. @return false: there is none whose work has completed, or no host
  /// memory to look for one.
  bool reclaim_one() noexcept REQUIRES(manager_lock);

  /// Unmaps all pieces of a buffer that the program does not have and that nothing uses; its pages
  /// become idle.
  /// @return false if one could not be unmapped: it, and those after it, stay in place.
  bool strip(BufferId id) noexcept REQUIRES(manager_lock);

 private:
  Result<Page> create(Bytes size) REQUIRES(manager_lock);
  bool reclaim_for(Bytes size, Terms terms) noexcept REQUIRES(manager_lock);
  [[nodiscard]] std::vector<BufferId> oldest_cached(bool also_lately) const REQUIRES(manager_lock);
  bool reclaim_cached(bool also_lately, Bytes size) REQUIRES(manager_lock);
  bool destroy_idle() REQUIRES(manager_lock);

  ResidencyCore& core_;
};

}  // namespace superpipe
