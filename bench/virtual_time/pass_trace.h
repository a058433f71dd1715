// What a workload does in each pass, recorded without a device: what bounds are computed from.
#pragma once

#include <cstddef>
#include <vector>

#include "bench/virtual_time/workloads.h"
#include "policy/timing_model.h"
#include "policy/units.h"

namespace superpipe::bench {

/// One launch: which buffers it names, and how long it computes.
struct TracedLaunch {
  KernelId kernel{};
  std::vector<Handle> buffers;
  Seconds compute{};
};

/// The launches of one pass.
struct TracedPass {
  std::vector<TracedLaunch> launches;
  Seconds compute{};  ///< the sum over all launches
  Bytes persistent;   ///< W: footprints of what was named and had been there before the pass
  Bytes peak;         ///< of footprints of all live buffers
  Bytes transients;   ///< peak of footprints of what the pass allocated and freed itself
};

/// A program that runs nowhere.
struct PassTrace {
  Bytes granule;
  std::vector<Bytes> footprints;  ///< by handle
  std::vector<TracedPass> passes;

  /// The most that all live buffers take in a pass: what the workload needs without superpipe.
  [[nodiscard]] Bytes peak() const;
};

/// Records `passes` passes of `workload`, whose buffers take whole granules of `granule`.
[[nodiscard]] PassTrace record_passes(Workload& workload, int passes, Bytes granule);

/// What no schedule can beat, as means over passes from the `first` on.
///
/// The place for further bounds: whatever is computed from the launches of a PassTrace, the budget
/// and the link becomes a member here, is filled in by bounds_of(), and gets its column in
/// report.cc.
struct Bounds {
  Seconds compute{};   ///< with everything on the device
  Seconds physical{};  ///< policy/timing_model.h
};

/// REQUIRES: first < trace.passes.size().
[[nodiscard]] Bounds bounds_of(const PassTrace& trace, std::size_t first, Bytes budget,
                               Bandwidth host_to_device);

}  // namespace superpipe::bench
