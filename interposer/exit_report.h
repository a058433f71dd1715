// What a process says at its end: the statistics file and the summary.
#pragma once

#include <optional>
#include <string>

#include "profiler/run_figures.h"

namespace superpipe {

/// The median time of a pass, and the least time that it could take.
struct PassTimes {
  double pass_ms = 0;              ///< 0 if no pass was seen
  std::optional<double> bound_ms;  ///< nullopt if the link was never measured or no pass was seen
};

/// The physical bound of DESIGN section 7, max(compute, (W - fit) / link): W the persistent bytes
/// of a pass, fit = limit - the transients' peak. Compute is what is left of the median pass
/// without its share of the stalls. Pure.
[[nodiscard]] PassTimes pass_times(const RunFigures& figures);

/// The statistics of DESIGN section 8 as one JSON object, with exactly its names. Pure.
[[nodiscard]] std::string statistics_json(const RunFigures& figures);

/// The summary for people, several lines, each beginning "superpipe: ". Pure.
[[nodiscard]] std::string summary_text(const RunFigures& figures);

/// Writes `text` to `path` in one step: a reader sees the old file or the new one, never half.
/// @return what went wrong, or nullopt.
[[nodiscard]] std::optional<std::string> write_file_atomically(const std::string& path,
                                                               const std::string& text);

/// Writes what the configuration asks for. Called once, from the library's destructor.
///
/// Calls no driver function: at exit the driver's own destructors may have run before ours, and a
/// call would fail, hang or crash. Does nothing if nothing was managed.
void report_at_exit() noexcept;

}  // namespace superpipe
