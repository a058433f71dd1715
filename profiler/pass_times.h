// How long a pass took, and the least time that it could have taken.
#pragma once

#include <optional>

#include "profiler/run_figures.h"

namespace superpipe {

/// The median time of a pass, and the least time that it could take.
struct PassTimes {
  double pass_ms = 0;  ///< 0 if no pass was seen
  /// nullopt if no pass was seen, or if not all fits and the link was never measured.
  std::optional<double> bound_ms;
};

/// The bound is policy's physical_bound(), max(compute, (W - fit) / link), with what the run itself
/// showed (docs/design.md, "Layers and policies"): W are the persistent bytes of a pass; fit is the
/// managed limit less the transients' peak, and all of W under policy `resident`; compute is the
/// median pass without its share of the stalls. Pure but for memory: throws std::bad_alloc.
[[nodiscard]] PassTimes pass_times(const RunFigures& figures);

}  // namespace superpipe
