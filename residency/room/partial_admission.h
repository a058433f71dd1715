// Gets in place what an operation names, or as much of it as fits.
#pragma once

#include <cstddef>
#include <span>

#include "policy/policy.h"
#include "policy/units.h"
#include "residency/manager_mutex.h"
#include "residency/residency_core.h"
#include "residency/result.h"
#include "residency/room/admission.h"
#include "residency/room/eviction_queue.h"
#include "residency/room/left_out_buffers.h"
#include "residency/room/overfull_launches.h"
#include "residency/streams/event_pool.h"
#include "residency/streams/stream_table.h"

namespace superpipe {

/// Begins a launch that would need more than the limit without buffers that only words of PyTorch's
/// structs name, as many as it takes: most such words are left over from before the struct was
/// filled. What is in place of them counts as used, and may be; the rest stays out until the launch
/// has completed (LeftOutBuffers), so that a kernel which does use it faults. A launch that would
/// be left with nothing is refused.
///
/// A part of the manager, under its mutex.
class PartialAdmission {
 public:
  PartialAdmission(ResidencyCore& core, EvictionQueue& evictions, Admission& admission,
                   LeftOutBuffers& left_out)
      : core_(core), evictions_(evictions), admission_(admission), left_out_(left_out) {}

  /// What is to be got in place.
  struct Request {
    std::span<BufferId> buffers;  ///< all pinned; those that must be there come first
    std::size_t certain = 0;      ///< how many must
    KernelId kernel{};
    Slot slot = kNoSlot;
    bool may_shrink = false;  ///< the caller asks for fewer buffers if these do not fit
    Turn* turn = nullptr;     ///< WorkingSet::turn
  };

  /// Gets them in place, and sorts those behind the others that the launch has to do without. All
  /// stay pinned, on failure too. Opens the mutex. @return how many are left out, for end(); the
  /// errors of Admission::bring_in(), kTimedOut, kOutOfHostMemory.
  Result<std::size_t> bring_in(const Request& request, const Decision& decision)
      REQUIRES(manager_lock);

  /// The launch without `left_out` was `submitted`, and `end` lies behind it (null: nothing marks
  /// its end), or it came to nothing.
  void end(std::span<const BufferId> left_out, bool submitted, const EventRef& end) noexcept
      REQUIRES(manager_lock);

 private:
  Status keep_what_fits(const Request& request, const Decision& decision, std::size_t& kept)
      REQUIRES(manager_lock);
  std::size_t leave_out(std::span<BufferId> buffers, std::size_t certain, KernelId kernel)
      REQUIRES(manager_lock);
  Status stay_out(std::span<const BufferId> left_out, KernelId kernel) REQUIRES(manager_lock);
  void say_left_out(const Request& request, std::size_t kept) noexcept REQUIRES(manager_lock);

  ResidencyCore& core_;
  EvictionQueue& evictions_;
  Admission& admission_;
  LeftOutBuffers& left_out_;
  OverfullLaunches overfull_ GUARDED_BY(manager_lock);
};

}  // namespace superpipe
