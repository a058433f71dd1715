// A run's figures as a few lines of text, for the user.
#pragma once

#include <string>

#include "profiler/run_figures.h"

namespace superpipe {

/// The summary of a run: several lines, each beginning "superpipe: ". Pure but for memory: throws
/// std::bad_alloc.
[[nodiscard]] std::string summary_text(const RunFigures& figures);

}  // namespace superpipe
