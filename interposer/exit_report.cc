#include "interposer/exit_report.h"

#include <cstdio>

#include "interposer/context_registry.h"
#include "interposer/log.h"
#include "interposer/process_configuration.h"
#include "interposer/version.h"
#include "profiler/atomic_file.h"
#include "profiler/run_summary.h"
#include "profiler/statistics_json.h"
#include "profiler/timeline_csv.h"

namespace superpipe {

void report_at_exit() noexcept {
  try {
    const auto figures = ContextRegistry::of_process().figures();
    if (!figures) return;
    const Configuration& configuration = process_configuration();
    if (!configuration.stats_file.empty()) {
      if (const auto problem = write_file_atomically(configuration.stats_file,
                                                     statistics_json(*figures, kVersion))) {
        log_line(LogLevel::kError, "SUPERPIPE_STATS: " + *problem);
      }
    }
    if (!configuration.timeline_file.empty()) {
      if (const auto problem = write_file_atomically(
              configuration.timeline_file,
              timeline_csv(figures->residency.timeline, figures->residency.learned.layer_bytes))) {
        log_line(LogLevel::kError, "SUPERPIPE_TIMELINE: " + *problem);
      }
    }
    if (configuration.summary) {
      const std::string text = summary_text(*figures);
      std::fwrite(text.data(), 1, text.size(), stderr);
    }
  } catch (...) {
    log_line(LogLevel::kError, "out of memory while writing the statistics");
  }
}

}  // namespace superpipe
