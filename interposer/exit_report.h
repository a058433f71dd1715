// What the library leaves behind at the process's exit: the statistics file, the timeline file, the
// end of the trace and the summary.
#pragma once

#include "interposer/configuration.h"
#include "profiler/run_figures.h"

namespace superpipe {

/// Writes what `configuration` asks for of `figures`: files, and the summary to standard error. A
/// file that cannot be written is named in the log. Throws std::bad_alloc.
void write_reports(const RunFigures& figures, const Configuration& configuration);

/// Writes the reports on this process, or none if nothing was managed; where a trace was asked for
/// and nothing was recorded, a line says so. Called once, by the library's destructor.
///
/// Calls no driver function: at exit the driver's own destructors may have run before ours, and a
/// call would fail, hang or crash.
void report_at_exit() noexcept;

}  // namespace superpipe
