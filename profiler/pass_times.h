// How long a pass took, and the least time that it could have taken.
#pragma once

#include <optional>

#include "profiler/run_figures.h"

namespace superpipe {

/// The median time of a pass, and the least time that it could take.
struct PassTimes {
  double pass_ms = 0;              ///< 0 if no pass was seen
  std::optional<double> bound_ms;  ///< nullopt if the link was never measured or no pass was seen
};

/// The physical bound (docs/design.md, "Layers and policies"), max(compute, (W - fit) / link): W
/// the persistent bytes of a pass, fit = limit - the transients' peak. Compute is what is left of
/// the median pass without its share of the stalls. Pure.
[[nodiscard]] PassTimes pass_times(const RunFigures& figures);

}  // namespace superpipe
