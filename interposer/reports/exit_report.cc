#include "interposer/reports/exit_report.h"

#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <new>
#include <string>
#include <system_error>

#include "interposer/allocators/framework_environment.h"
#include "interposer/contexts/context_registry.h"
#include "interposer/driver/loader.h"
#include "interposer/driver_of_run.h"
#include "interposer/log.h"
#include "interposer/process_configuration.h"
#include "interposer/recording/trace_recording.h"
#include "interposer/version.h"
#include "profiler/pass_times.h"
#include "profiler/run_file.h"
#include "profiler/run_summary.h"
#include "profiler/statistics_json.h"
#include "profiler/timeline_csv.h"
#include "settings/settings.h"

namespace superpipe {
namespace {

std::atomic<bool> has_refused{false};
std::atomic_flag is_ending;  ///< by end_process()

/// Has a Python program write what it has printed, if the calling thread may run Python: its
/// streams are none of the C library's.
void flush_python() noexcept {
  const auto may_run = reinterpret_cast<int (*)()>(::dlsym(RTLD_DEFAULT, "PyGILState_Check"));
  const auto run =
      reinterpret_cast<int (*)(const char*)>(::dlsym(RTLD_DEFAULT, "PyRun_SimpleString"));
  if (may_run == nullptr || run == nullptr || may_run() != 1) return;
  (void)run("import sys; sys.stdout.flush(); sys.stderr.flush()");
}

ProcessName name_of_this_process() {
  return process_name(::getpid(), [](const char* name) { return std::getenv(name); });
}

/// Makes of `file` the path that this process writes; empty stays empty. Processes with ranks may
/// have begun one by one, and know nothing of each other's files: only the first takes a name that
/// all have.
void name_file(const char* variable, std::string& file) {
  if (file.empty()) return;
  const ProcessName process = name_of_this_process();
  const bool is_shared = !names_each_process(file) && process.is_one_of_several;
  file = file_name_of(file, process);
  if (is_shared && process.rank.value_or(0) > 0) file += '.' + std::to_string(process.id);
  std::error_code no_folder;
  const auto path = std::filesystem::absolute(file, no_folder);
  if (!no_folder) file = path.string();
  note_former_file(variable, file);
}

/// Writes the file at `path`, for which the setting `id` asks.
void write_report(SettingId id, const char* variable, const std::string& path,
                  const std::string& text) {
  const char* const root = std::getenv(kRunRootVariable);
  const bool began_run = root != nullptr && root == std::to_string(::getpid());
  const Claim claim = began_run ? Claim::kAlways : Claim::kFirst;
  if (const auto problem = write_run_file(variable, path, text, claim)) {
    log_line(LogLevel::kError, std::string(variable_of(id)) + ": " + *problem);
  }
}

void report() noexcept {
  ManagedContext* const managed = ContextRegistry::managed();
  if (managed != nullptr) managed->end_progress();
  try {
    if (say_foreign_drivers()) note_driver_of_run();
    const auto figures = ContextRegistry::of_process().figures();
    has_refused =
        figures && figures->refused_operations + figures->residency.refused_allocations > 0;
    if (figures) write_reports(*figures, process_configuration(), name_of_this_process());
  } catch (...) {
    log_line(LogLevel::kError, "out of memory while writing the statistics");
  }
  if (managed != nullptr) managed->finish_trace();
  const std::string& trace = process_configuration().trace_file;
  if (managed == nullptr && !trace.empty()) say_if_nothing_was_recorded(trace);
}

}  // namespace

void begin_reports(Configuration& configuration) {
  constexpr int kKeep = 0;
  if (configuration.summary || !configuration.stats_file.empty() ||
      !configuration.timeline_file.empty()) {
    ::setenv(kRunRootVariable, std::to_string(::getpid()).c_str(), kKeep);
  }
  name_file(kFormerStatisticsVariable, configuration.stats_file);
  name_file(kFormerTimelineVariable, configuration.timeline_file);
}

void write_reports(const RunFigures& figures, const Configuration& configuration,
                   const ProcessName& process) {
  const bool tells_times = configuration.summary || !configuration.stats_file.empty();
  const PassTimes times = tells_times ? pass_times(figures) : PassTimes{};
  if (!configuration.stats_file.empty()) {
    write_report(SettingId::kStats, kFormerStatisticsVariable, configuration.stats_file,
                 statistics_json(figures, times, process, kVersion));
  }
  if (!configuration.timeline_file.empty()) {
    write_report(SettingId::kTimeline, kFormerTimelineVariable, configuration.timeline_file,
                 timeline_csv(figures.residency.timeline, figures.residency.learned.layer_bytes));
  }
  if (configuration.summary) {
    const std::string text = summary_text(figures, times, process);
    std::fwrite(text.data(), 1, text.size(), stderr);
  }
}

bool was_refused_before_report() noexcept { return has_refused; }

void report_at_exit() noexcept {
  // A second caller waits for the first one: its process ends then.
  static std::once_flag once;
  std::call_once(once, report);
}

void wait_if_process_ends() noexcept {
  while (is_ending.test()) ::pause();
}

void flush_what_is_printed() noexcept {
  for (std::FILE* const stream : {stdout, stderr}) {
    if (::ftrylockfile(stream) != 0) continue;
    ::fflush_unlocked(stream);
    ::funlockfile(stream);
  }
}

void end_process(int code) noexcept {
  if (is_ending.test_and_set()) wait_if_process_ends();
  flush_python();
  report_at_exit();
  flush_what_is_printed();
  ::_exit(code);
}

}  // namespace superpipe
