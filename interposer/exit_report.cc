#include "interposer/exit_report.h"

#include <cstdio>
#include <string>

#include "interposer/context_registry.h"
#include "interposer/log.h"
#include "interposer/process_configuration.h"
#include "interposer/trace_recording.h"
#include "interposer/version.h"
#include "policy/settings.h"
#include "profiler/atomic_file.h"
#include "profiler/pass_times.h"
#include "profiler/run_summary.h"
#include "profiler/statistics_json.h"
#include "profiler/timeline_csv.h"

namespace superpipe {
namespace {

/// Writes the file at `path`, for which the setting `id` asks.
void write_report(SettingId id, const std::string& path, const std::string& text) {
  if (const auto problem = write_file_atomically(path, text)) {
    log_line(LogLevel::kError, std::string(variable_of(id)) + ": " + *problem);
  }
}

}  // namespace

void write_reports(const RunFigures& figures, const Configuration& configuration) {
  const bool tells_times = configuration.summary || !configuration.stats_file.empty();
  const PassTimes times = tells_times ? pass_times(figures) : PassTimes{};
  if (!configuration.stats_file.empty()) {
    write_report(SettingId::kStats, configuration.stats_file,
                 statistics_json(figures, times, kVersion));
  }
  if (!configuration.timeline_file.empty()) {
    write_report(SettingId::kTimeline, configuration.timeline_file,
                 timeline_csv(figures.residency.timeline, figures.residency.learned.layer_bytes));
  }
  if (configuration.summary) {
    const std::string text = summary_text(figures, times);
    std::fwrite(text.data(), 1, text.size(), stderr);
  }
}

void report_at_exit() noexcept {
  ManagedContext* const managed = ContextRegistry::managed();
  if (managed != nullptr) managed->end_progress();
  try {
    const auto figures = ContextRegistry::of_process().figures();
    if (figures) write_reports(*figures, process_configuration());
  } catch (...) {
    log_line(LogLevel::kError, "out of memory while writing the statistics");
  }
  if (managed != nullptr) managed->finish_trace();
  const std::string& trace = process_configuration().trace_file;
  if (managed == nullptr && !trace.empty()) say_if_nothing_was_recorded(trace);
}

}  // namespace superpipe
