// How many bytes the pages of one manager may take.
#pragma once

#include <chrono>
#include <cstdint>

#include "policy/policy_engine.h"
#include "policy/units.h"
#include "profiler/budget_answer.h"
#include "residency/manager_mutex.h"
#include "residency/residency_options.h"
#include "residency/room/device_ledger.h"
#include "residency/room/device_pressure.h"
#include "residency/room/host_backing.h"
#include "residency/room/passthrough_ledger.h"
#include "residency/warning_queue.h"

namespace superpipe {

/// Keeps the ledger's limit at what policy makes of the budget, of pass-through memory, and of what
/// other processes hold. Before the limit falls below the live buffers, host memory is set aside
/// for what has to leave.
///
/// Under the manager's mutex. Calls no device and moves nothing: whether pages exceed the limit,
/// its callers ask the ledger.
class PageLimit {
 public:
  /// What it works on; all must outlive it.
  struct Parts {
    PassthroughLedger& passthrough;
    DeviceLedger& ledger;
    PolicyEngine& policy;
    HostBacking& backing;
    WarningQueue& warnings;
  };

  /// `moves`: whether the policy ever moves anything. `granule`: of pages.
  PageLimit(const ResidencyOptions& options, bool moves, Bytes granule, const Parts& parts)
      : options_(options),
        moves_(moves),
        granule_(granule),
        parts_(parts),
        pressure_(options.headroom, granule) {}

  /// Tells policy of pass-through memory, and the ledger what policy says of the limit.
  void refresh() REQUIRES(manager_lock);
  /// The same for a policy that takes the place of the one before, and was told nothing yet.
  void tell_new_policy(PolicyEngine& policy) const REQUIRES(manager_lock);

  /// Pages and pass-through memory may take `budget` from now on. Where the live buffers no longer
  /// fit, host memory is set aside for all of them first. REQUIRES: the manager has not ended.
  BudgetAnswer set_budget(Bytes budget) noexcept REQUIRES(manager_lock);
  /// A launch needs `bytes` of pages at once: what was yielded to other processes gives way to it,
  /// as far as the budget goes, and so does what is kept free for pools beside the headroom.
  /// @return whether the limit is higher now.
  bool claim(Bytes bytes) noexcept REQUIRES(manager_lock);

  /// The device has `total` bytes, of which `besides_pages` are in use that are in no page of ours.
  /// Yields to other processes what they need of it, if anything moves and there is a budget.
  void note_device(Bytes total, Bytes besides_pages,
                   std::chrono::steady_clock::time_point now) noexcept REQUIRES(manager_lock);
  /// The ledger of pass-through memory knows something else: follows that.
  void follow_passthrough() noexcept REQUIRES(manager_lock);
  /// What is this process's was settled: what is yielded may be another part of the budget.
  void follow_settled() noexcept REQUIRES(manager_lock);

  /// The limit was lowered, by a new budget or by what a sample found, and the pages have not
  /// fitted it since: the worker evicts for that even where a launch may exceed the limit, and
  /// launches wait for it.
  [[nodiscard]] bool is_lowered() const REQUIRES(manager_lock) { return lowered_; }
  /// The pages fit it, or no more of them can go.
  void end_lowering() REQUIRES(manager_lock) { lowered_ = false; }

  /// How often the budget was set to another one.
  [[nodiscard]] std::uint64_t budget_changes() const REQUIRES(manager_lock) {
    return budget_changes_;
  }

 private:
  /// Whether what does not fit `limit` bytes of pages can leave the device: then host memory is set
  /// aside for it.
  bool can_shrink_to(Bytes limit) noexcept REQUIRES(manager_lock);
  void yield(const DevicePressure& before, bool shifted) noexcept REQUIRES(manager_lock);
  void yield_what_pressure_says() noexcept REQUIRES(manager_lock) {
    parts_.passthrough.set_yielded(pressure_.yielded(parts_.passthrough.allowed()));
  }

  const ResidencyOptions& options_;
  const bool moves_;
  const Bytes granule_;
  const Parts parts_;
  DevicePressure pressure_ GUARDED_BY(manager_lock);
  Bytes reserved_ GUARDED_BY(manager_lock);  ///< what policy was told last to leave to the driver
  bool lowered_ GUARDED_BY(manager_lock) = false;
  bool budget_was_set_ GUARDED_BY(manager_lock) = false;  ///< it is not that of the options
  std::uint64_t budget_changes_ GUARDED_BY(manager_lock) = 0;
};

}  // namespace superpipe
