// Lets the program have memory that superpipe does not manage, or says why not.
#pragma once

#include <cstdint>

#include "policy/units.h"
#include "residency/manager_mutex.h"
#include "residency/residency_core.h"
#include "residency/room/admission.h"
#include "residency/room/passthrough_change.h"

namespace superpipe {

/// Admits pass-through memory: small allocations, memory of graphs, and what else of the program's
/// the driver allocates. Pages leave for what is admitted.
///
/// Any thread, without the manager's mutex, which it takes. May ask the device what it holds, and
/// wait for evictions as long as its functions say; never for a launch of the program that has not
/// been submitted.
class PassthroughAdmission {
 public:
  /// Both must outlive it.
  PassthroughAdmission(ResidencyCore& core, Admission& admission)
      : core_(core), admission_(admission) {}

  /// An allocation of `size` is about to be made. What outgrows the headroom makes pages leave
  /// first, for as long as ResidencyOptions::patience(). @return false: it has to fail.
  bool begin_allocation(Bytes size) noexcept EXCLUDES(manager_lock);
  /// It has been, or not.
  void end_allocation(Bytes size, bool made) noexcept EXCLUDES(manager_lock);

  /// A graph is about to allocate `size`. Makes pages leave, for as long as the wait limit.
  /// @return false: it has to fail.
  bool begin_foreseen(Bytes size) noexcept EXCLUDES(manager_lock);
  /// It has, or not.
  void end_foreseen(Bytes size, bool taken) noexcept EXCLUDES(manager_lock);

  /// What may change the amount has happened (PassthroughLedger::begin_change()).
  void end_change(PassthroughChange change) noexcept EXCLUDES(manager_lock);

  /// Makes pages of `size` leave, for as long as the wait limit. @return whether they have, and
  /// there were any.
  bool make_room(Bytes size) noexcept EXCLUDES(manager_lock);

 private:
  /// What asks for memory.
  enum class Asker : std::uint8_t { kAllocation, kGraph };

  bool admits(Bytes size, Asker asker) noexcept EXCLUDES(manager_lock);
  void leave_room_for(Bytes size) noexcept EXCLUDES(manager_lock);
  void warn_of_refusal(Bytes size, Asker asker) REQUIRES(manager_lock);
  void wake_for_sample() noexcept EXCLUDES(manager_lock);

  ResidencyCore& core_;
  Admission& admission_;
};

}  // namespace superpipe
