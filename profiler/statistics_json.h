// A run's figures as JSON: the statistics file that SUPERPIPE_STATS names.
#pragma once

#include <string>
#include <string_view>

#include "profiler/run_figures.h"

namespace superpipe {

/// `figures` as one JSON object, with a line break at its end. `version`: superpipe's own.
///
/// The names of its fields are a public contract (docs/design.md, "Settings and statistics"). Pure
/// but for memory: throws std::bad_alloc.
[[nodiscard]] std::string statistics_json(const RunFigures& figures, std::string_view version);

}  // namespace superpipe
