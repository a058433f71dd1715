// Runs a workload under the real residency manager and policy, over a device in virtual time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "policy/policy_engine.h"
#include "policy/recorded_run.h"
#include "policy/units.h"
#include "profiler/run_figures.h"
#include "residency/virtual_time/program.h"
#include "residency/virtual_time/virtual_clock.h"
#include "residency/virtual_time/virtual_device.h"

namespace superpipe::virtual_time {

/// What the surroundings do to a program before a pass begins.
struct Disturbance {
  int pass = 0;                 ///< before which; counted from 0
  std::optional<Bytes> budget;  ///< it gets this budget
  std::optional<Bytes> others;  ///< other processes hold as much of the device from then on
};

/// What is run.
struct Experiment {
  PolicyKind policy = PolicyKind::kSuperpipeline;
  Bytes budget;    ///< of the device, for managed buffers and what is held besides; void with a k
  Bytes headroom;  ///< of the budget: ResidencyOptions::headroom
  std::optional<int> k{};        ///< layers on the device, for policies that count them
  std::optional<int> k_prime{};  ///< layers moved at a time
  Bytes piece_size;              ///< ResidencyOptions::piece_size
  /// ResidencyOptions::host_limit; by default more than any program needs: nothing touches that
  /// memory.
  Bytes host_limit{std::uint64_t{1} << 42};
  bool compares_digests = true;  ///< ResidencyOptions::compares_digests
  bool maps_early = false;       ///< ResidencyOptions::maps_early
  /// ResidencyOptions::kernel_name, for Outcome::error; null: that one's default, a number.
  std::function<std::string(KernelId)> kernel_name{};
  int passes = 10;
  /// What the program did in an earlier run, up to the end of its first pass; null: it is not
  /// known.
  std::shared_ptr<const RecordedRun> recorded{};
  std::vector<Disturbance> disturbances;  ///< in the order of their passes
  VirtualDeviceOptions device;
  ThreadCosts threads;
  /// How fast the program's thread copies into pinned host memory where a buffer is not on the
  /// device.
  Bandwidth host_copies{10e9};
  /// How fast the program gets what it copies to the device while it loads, as from a file;
  /// nullopt: it has it already.
  std::optional<Bandwidth> load_rate{};
};

/// What one pass did. Moments and bytes are what it added.
struct PassFigures {
  Time time{0};  ///< from the end of the pass before it on the device, or of loading, to its own
  Time compute{0};
  std::uint64_t launches = 0;
  std::uint64_t stalls = 0;  ///< launches that waited for a buffer, on the host or on the device
  Time host_wait{0};         ///< the program's thread waited in calls of the manager
  Time device_wait{0};       ///< the stream had nothing to do but wait for a fetch
  /// Launches that were asked for had not begun, because what they name was not there, while the
  /// device had nothing else to compute: what a run measures as stalls (StallMeter). At most
  /// `time`.
  Time stalled{0};
  Bytes to_device, to_host;  ///< of superpipe's transfers
  CallCounts calls;
  std::uint64_t accesses = 0;  ///< buffers named by launches
  std::uint64_t demand_fetches = 0, prefetches = 0, clean_evictions = 0, write_backs = 0;
};

/// What came of it.
struct Outcome {
  std::string error;  ///< why the workload ended early; empty: it did not
  Time load{0};
  Time since_launch{0};             ///< from the end of loading's last launch to the end of loading
  std::vector<PassFigures> passes;  ///< that ended
  /// The launch, counted from the first pass's first, by which the order of a pass was known.
  std::optional<std::uint64_t> learned_at;
  ResidencyStats stats;  ///< at the end of the last pass
  RecordedRun recorded;  ///< what it did up to the end of the first pass
  Bytes peak_pages;
  Bytes peak_device;  ///< of pages and what is held besides, together
  Bytes pinned;
  std::vector<std::string> violations;
};

/// Runs `workload` from its loading on. Deterministic: depends only on its arguments.
[[nodiscard]] Outcome run(Workload& workload, const Experiment& experiment);

}  // namespace superpipe::virtual_time
