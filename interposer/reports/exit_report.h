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
/// and nothing was recorded, a line says so. Called by the library's destructor; only the first
/// call does something.
///
/// Calls no driver function: at exit the driver's own destructors may have run before ours, and a
/// call would fail, hang or crash.
void report_at_exit() noexcept;

/// Where another thread is in end_process(), does not return.
void wait_if_process_ends() noexcept;

/// Whether a launch, a copy or an allocation of this process had been refused by then: an error at
/// its end is mostly of that.
bool was_refused_before_report() noexcept;

/// Writes what the program has printed. A stream that a thread of the program holds is left alone:
/// that may be for ever.
void flush_what_is_printed() noexcept;

/// Ends the process with `code`, from a call of the program: with its reports, and without what its
/// exit would run. Of several threads the first one ends it. REQUIRES: the calling thread holds no
/// lock of superpipe's.
[[noreturn]] void end_process(int code) noexcept;

}  // namespace superpipe
