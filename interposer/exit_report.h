// What the library leaves behind at the process's exit: the statistics file, the timeline file, the
// end of the trace and the summary.
#pragma once

#include "interposer/configuration.h"
#include "profiler/process_name.h"
#include "profiler/run_figures.h"

namespace superpipe {

/// Begins the reports of a run, unless a process that started this one has: notes for the processes
/// that it starts which one it is, and which files the reports replace. Changes the environment:
/// not thread-safe. The files' names in `configuration` are those of this process from here on, and
/// stay what they are when it changes its folder.
void begin_reports(Configuration& configuration);

/// Writes what `configuration` asks for of `figures` of `process`: files, and the summary to
/// standard error. Where another process of the run has written a file, this one's has its id
/// behind the name. A file that cannot be written is named in the log. Throws std::bad_alloc.
void write_reports(const RunFigures& figures, const Configuration& configuration,
                   const ProcessName& process);

/// Writes the reports on this process, or none if nothing was managed; where a trace was asked for
/// and nothing was recorded, a line says so. Called once, by the library's destructor.
///
/// Calls no driver function: at exit the driver's own destructors may have run before ours, and a
/// call would fail, hang or crash.
void report_at_exit() noexcept;

}  // namespace superpipe
