// A run's figures as a few lines of text, for the user.
#pragma once

#include <string>

#include "profiler/pass_times.h"
#include "profiler/run_figures.h"

namespace superpipe {

/// The summary of a run whose pass_times() are `times`: several lines, each beginning
/// "superpipe: ". Pure but for memory: throws std::bad_alloc.
[[nodiscard]] std::string summary_text(const RunFigures& figures, const PassTimes& times);

}  // namespace superpipe
