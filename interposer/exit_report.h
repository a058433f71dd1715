// What a process says at its end: the statistics file, the timeline and the summary.
#pragma once

namespace superpipe {

/// Writes what the configuration asks for. Called once, from the library's destructor.
///
/// Calls no driver function: at exit the driver's own destructors may have run before ours, and a
/// call would fail, hang or crash. Does nothing if nothing was managed.
void report_at_exit() noexcept;

}  // namespace superpipe
