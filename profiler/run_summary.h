// A run's figures as a few lines of text, for the user.
#pragma once

#include <string>

#include "profiler/pass_times.h"
#include "profiler/process_name.h"
#include "profiler/run_figures.h"

namespace superpipe {

/// The summary of a run of `process` whose pass_times() are `times`: several lines, each beginning
/// "superpipe: ". Where the process is one of several, its name comes next in each line, because
/// the lines of several processes mix on a terminal. Reads and changes nothing else. Throws
/// std::bad_alloc.
[[nodiscard]] std::string summary_text(const RunFigures& figures, const PassTimes& times,
                                       const ProcessName& process);

}  // namespace superpipe
