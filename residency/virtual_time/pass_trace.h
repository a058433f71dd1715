// What a workload does in each pass, recorded without a device: what bounds are computed from.
#pragma once

#include <cstddef>
#include <vector>

#include "policy/timing_model.h"
#include "policy/units.h"
#include "residency/virtual_time/program.h"

namespace superpipe::virtual_time {

/// One launch: which buffers it names, and how long it computes.
struct TracedLaunch {
  KernelId kernel{};
  std::vector<Handle> buffers;
  std::vector<Handle> makes;   ///< those that it is the first to name, of what passes allocate
  std::vector<Handle> writes;  ///< those whose content it changes
  Seconds compute{};
};

/// The launches of one pass.
struct TracedPass {
  std::vector<TracedLaunch> launches;
  std::size_t earlier = 0;  ///< handles below it were made before the pass
  Seconds compute{};        ///< the sum over all launches
  Bytes persistent;         ///< W: sizes of what was named and had been there before the pass
  Bytes peak;               ///< of footprints of all live buffers
  Bytes transients;         ///< peak of footprints of what the pass allocated and freed itself
};

/// A program that runs nowhere.
struct PassTrace {
  Bytes granule;
  std::vector<Bytes> sizes;       ///< by handle: what crosses the link
  std::vector<Bytes> footprints;  ///< by handle: what it takes on the device
  /// Those to which nothing was copied and that no kernel wrote when the first pass begins.
  std::vector<Handle> without_content;
  std::vector<TracedPass> passes;

  /// The most that all live buffers take in a pass: what the workload needs without superpipe.
  [[nodiscard]] Bytes peak() const;
};

/// Records `passes` passes of `workload`, whose buffers take whole granules of `granule`.
[[nodiscard]] PassTrace record_passes(Workload& workload, int passes, Bytes granule);

/// What no schedule can beat, and what others move, as means over passes from the `first` on.
///
/// Bounds hold for every schedule: they give buffers the whole budget, let them fill it without the
/// padding of their last granules, and what the program makes in a pass has to be brought only
/// after that. Reference figures are about buffers that were made
/// before the first pass; what passes make themselves takes its peak off the budget there.
struct Bounds {
  Seconds compute{};   ///< with everything on the device
  Seconds physical{};  ///< policy/timing_model.h
  Seconds windowed{};  ///< policy/windowed_bound.h
  Seconds repeated{};  ///< the windowed bound of the last pass, if it is repeated without end
  Bytes min_bytes;     ///< fetched by MIN (policy/reference_traffic.h)
  Bytes lru_bytes;     ///< fetched by plain last use
  Bytes bip_bytes;     ///< fetched by bimodal insertion
};

/// The windowed bound of one pass, whatever the device holds when it begins. REQUIRES: there is
/// such a pass.
[[nodiscard]] Seconds bound_of_pass(const PassTrace& trace, std::size_t pass, Bytes budget,
                                    Bandwidth host_to_device);

/// REQUIRES: first < trace.passes.size().
[[nodiscard]] Bounds bounds_of(const PassTrace& trace, std::size_t first, Bytes budget,
                               Bandwidth host_to_device);

}  // namespace superpipe::virtual_time
