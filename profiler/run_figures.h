// What is counted while a program runs under superpipe: the source of its statistics and summary.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "policy/pass_launches.h"
#include "policy/policy_engine.h"
#include "policy/units.h"
#include "profiler/pass_meter.h"
#include "profiler/timeline_event.h"

namespace superpipe {

/// What the managed buffers of one device did since they came under management; bytes are
/// superpipe's own transfers (docs/design.md, "Settings and statistics").
struct ResidencyCounters {
  std::uint64_t launches = 0, accesses = 0;
  Bytes peak_device_bytes;  ///< managed, cached, pooled and pass-through together
  Bytes managed_bytes, passthrough_bytes;
  Bytes peak_passthrough_bytes;
  Bytes peak_managed_demand;  ///< the most that live buffers were asked to hold
  Bytes peak_padding;         ///< the most of their pages that was past the buffers' ends
  Bytes h2d_bytes, d2h_bytes;
  std::uint64_t demand_fetches = 0, prefetches = 0;
  std::uint64_t clean_evictions = 0, write_backs = 0;
  std::uint64_t precleaned = 0;  ///< pieces whose content was copied to the host ahead of need
  std::uint64_t digests = 0;     ///< of content that launches may have changed
  std::uint64_t unchanged = 0;   ///< clean evictions that only a digest showed to be clean
  double stall_ms = 0;
  Bytes pinned_host_bytes;
  Bytes managed_limit;
  Bytes budget;                      ///< the last one, without the context; 0: none
  std::uint64_t budget_changes = 0;  ///< while the program ran
  std::uint64_t pinned_buffers = 0;  ///< that had to stay on the device from some time on
  /// Launches that were begun without buffers which only words of structs name.
  std::uint64_t left_out_launches = 0;
  std::uint64_t refused_allocations = 0;  ///< pass-through ones, for which the budget had no room
  std::uint64_t errors = 0;
};

/// A launch, or another operation, that was refused because the budget is too small for it alone.
struct Refusal {
  std::string kernel;  ///< empty: it was no launch
  Bytes working_set;   ///< the managed bytes that it needs at once
  Bytes lacking;       ///< by how much the budget would have to be larger
};

/// The counters, and the figures that take host memory: those are empty where it has run out.
struct ResidencyStats : ResidencyCounters {
  /// As the worker saw them: the last ones, some thousands (PassMeter::kKept).
  std::vector<MeasuredPass> measured_passes;
  std::uint64_t forgotten_passes = 0;  ///< that were measured before those
  PolicyEngine::Learned learned;
  std::vector<TimelineEvent> timeline;   ///< empty unless it is recorded
  std::optional<Refusal> worst_refusal;  ///< the one that lacked most; nullopt: nothing was refused
};

/// What was known of a program's layers at one moment, and the limit that applied then.
struct LearnedSnapshot {
  PolicyEngine::Learned learned;
  Bytes managed_limit;
};

/// Lets `snapshot`, taken earlier, describe the layers in `stats` if its passes were larger.
///
/// Programs free everything before they end, and what is learned then describes nothing. How many
/// passes and mispredictions there were stays as `stats` has it. Throws std::bad_alloc.
void restore_larger_passes(const LearnedSnapshot& snapshot, ResidencyStats& stats);

/// Lets `pass`, a typical one, tell `stats` what a pass launches and
/// what its layers are; the learned layers stay where there are such. `pass` is not null. Cost as
/// PassLaunches::layer_bytes(). Throws std::bad_alloc.
void note_pass(std::shared_ptr<const PassLaunches> pass, ResidencyStats& stats);

/// All that the report of a run is made of.
struct RunFigures {
  PolicyKind policy = PolicyKind::kResident;
  std::optional<int> k;        ///< as configured
  std::optional<int> k_prime;  ///< as configured or defaulted
  Bytes budget;                ///< without the context; 0: none
  Bytes context_bytes;
  Bytes headroom;  ///< of the budget, kept free for what the driver takes without being asked
  ResidencyStats residency;
  std::uint64_t launches_without_buffers = 0;
  std::uint64_t refused_operations = 0;         ///< launches, copies and fills that failed
  std::uint64_t tensor_maps = 0;                ///< that the program had encoded of managed buffers
  std::optional<double> link_bytes_per_second;  ///< measured on superpipe's own transfers
  double overhead_ns_p50 = 0;
  double overhead_ns_p99 = 0;
  bool async_allocators = true;

  /// The k in use: as policy scheduled it or, while it has not, as configured; 0: none.
  [[nodiscard]] int scheduled_k() const;
  /// The same for k'.
  [[nodiscard]] int scheduled_k_prime() const;
  /// The smallest budget, with the context, that would have run what was refused because it names
  /// more at once than the budget leaves; nullopt: nothing was.
  [[nodiscard]] std::optional<Bytes> least_budget() const;
  /// All launches, whether or not they named a managed buffer.
  [[nodiscard]] std::uint64_t launches() const {
    return residency.launches + launches_without_buffers;
  }
};

/// The figures of a process that managed one context, whose figures are `earlier`, and after its
/// end another, whose figures are `later`.
///
/// Counts add up, peaks are the larger ones, series are `earlier`'s and then `later`'s. Settings,
/// the bytes in use, and what was learned are `later`'s; what it did not learn or measure is
/// `earlier`'s. Pure, except that it allocates: throws std::bad_alloc.
[[nodiscard]] RunFigures merged(const RunFigures& earlier, const RunFigures& later);

}  // namespace superpipe
