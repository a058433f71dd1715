// A run's figures as JSON: the statistics file that SUPERPIPE_STATS names.
#pragma once

#include <string>
#include <string_view>

#include "profiler/pass_times.h"
#include "profiler/process_name.h"
#include "profiler/run_figures.h"

namespace superpipe {

/// `figures`, whose pass_times() are `times`, as one JSON object, with a line break at its end.
/// `process`: the one that they are of. `version`: superpipe's own.
///
/// The names of its fields are a public contract (docs/design.md, "Settings and statistics"). Pure,
/// except that it allocates: throws std::bad_alloc.
[[nodiscard]] std::string statistics_json(const RunFigures& figures, const PassTimes& times,
                                          const ProcessName& process, std::string_view version);

}  // namespace superpipe
