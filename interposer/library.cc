// The preloaded library's start and end, and the few functions that it exports under its own name.
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "interposer/allocators/allocator_advice.h"
#include "interposer/allocators/allocator_need.h"
#include "interposer/allocators/framework_environment.h"
#include "interposer/configuration.h"
#include "interposer/contexts/context_registry.h"
#include "interposer/driver/hook_scope.h"
#include "interposer/driver/loader.h"
#include "interposer/driver_of_run.h"
#include "interposer/hooks/lookup.h"
#include "interposer/log.h"
#include "interposer/nvtx/nvtx_marks.h"
#include "interposer/process_configuration.h"
#include "interposer/recording/call_sites.h"
#include "interposer/recording/copy_recorder.h"
#include "interposer/recording/trace_recording.h"
#include "interposer/reports/exit_report.h"
#include "interposer/version.h"
#include "profiler/live_segment.h"
#include "residency/host/host_ledger.h"

#define SUPERPIPE_EXPORT __attribute__((visibility("default")))

namespace superpipe {

namespace {

/// The process that reports: the one that loaded us, or a forked child that was the first to look
/// for the driver. Other children have nothing to report.
pid_t owner = 0;

/// A forked child whose parent has called the driver has no threads but its own and no usable
/// driver: it passes through. Else nothing of ours is in use yet, and it may become a program of
/// its own.
void leave_child_alone() {
  if (!driver_was_looked_for()) return;
  hooks_disabled.store(true, std::memory_order_relaxed);
  ContextRegistry::of_process().abandon();
}

/// The driver was looked for, in this process for the first time.
void begin_using_driver() noexcept {
  owner = ::getpid();
  note_driver_of_run();
}

/// Registered by on_exit(), which alone tells the exit code. It runs behind our destructor, so what
/// it says is the last line.
void on_exit_with(int status, void* /*data*/) {
  if (::getpid() != owner) return;
  // What the process that waits for this one is told: the lowest eight bits.
  const int code = status & 0xFF;
  if (!was_refused_before_report()) say_allocator_of_failed_program(code);
  if (!end_watching_for_driver(code) || !process_configuration().strict) return;
  flush_what_is_printed();
  ::_exit(kExitStrict);
}

/// Sets the frameworks' allocators, unless the program needs PyTorch's own and the user has not
/// said which one it shall have: then `lines` say so. @return set_framework_allocators().
bool choose_allocators(std::vector<std::string>& lines) {
  const bool is_open = std::getenv(variable_of(SettingId::kAllocator)) == nullptr;
  const auto need = is_open ? allocator_need_of_process() : std::nullopt;
  if (!need || !keep_pytorch_allocator()) return set_framework_allocators();
  lines.push_back("PyTorch keeps its own allocator, which " + need->program + " needs for " +
                  need->what +
                  ": its blocks are moved, each of several tensors (--allocator async "
                  "overrides this)");
  return false;
}

/// What log_line() says of several lines.
std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += (text.empty() ? "" : "\nsuperpipe: ") + line;
  return text;
}

/// Runs before the program's main and before its constructors' CUDA calls. Touches no driver: a
/// program without CUDA goes on as it is, and is told so at its end where a summary was asked for.
__attribute__((constructor)) void start() {
  try {
    owner = ::getpid();
    ReadConfiguration read = read_configuration([](const char* name) { return std::getenv(name); });
    const Configuration& configuration = read.configuration;
    LiveSegment::remove_former(configuration.shared_folder);
    if (configuration.shares_host_memory) HostLedger::remove_former(configuration.shared_folder);
    const bool records_copies = !configuration.copies_file.empty();
    if (configuration.off && !records_copies && read.ok()) return;
    configure_log(configuration.log_level, configuration.log_file);
    if (!read.ok()) {
      const char* const then = configuration.strict ? "; SUPERPIPE_STRICT=1, so nothing runs"
                                                    : "; the program runs without superpipe";
      std::string lines;
      for (const SettingProblem& error : read.errors) {
        if (!lines.empty()) lines += "\nsuperpipe: ";
        lines += error.message() + then;
      }
      if (configuration.strict) {
        log_line(LogLevel::kError, lines);
        ::_exit(kExitBadConfiguration);
      }
      say_when_driver_loads(lines);
      return;
    }
    if (!configuration.trace_file.empty()) {
      // The program may change its folder before there is anything to record.
      std::error_code no_folder;
      const auto path = std::filesystem::absolute(configuration.trace_file, no_folder);
      // Else the path stays as it is, and what opens it says what is wrong.
      if (!no_folder) read.configuration.trace_file = path.string();
      begin_trace_run();
      offer_to_nvtx();
      open_call_sites();
    }
    begin_reports(read.configuration);
    std::vector<std::string> lines;
    if (configuration.policy != PolicyKind::kResident) lines = override_expandable_segments();
    if (configuration.async_allocators) {
      // A run within a budget has to do what a recorded one did, for plans to be of it.
      const bool is_recorded = !configuration.trace_file.empty();
      if (configuration.asks_for_less() || is_recorded) launch_kernels_one_by_one();
      read.configuration.async_allocators = choose_allocators(lines);
    }
    say_when_driver_loads(joined(lines));
    if (records_copies) {
      open_call_sites();
      CopyRecorder::start(configuration.copies_file);
    }
    set_process_configuration(std::move(read.configuration));
    begin_watching_for_driver();
    call_when_driver_is_looked_for(begin_using_driver);
    set_exported_functions(kExportedFunctions);
    ::pthread_atfork(nullptr, nullptr, leave_child_alone);
    ::on_exit(on_exit_with, nullptr);
    hooks_disabled.store(false, std::memory_order_release);
  } catch (...) {
    // Out of memory before main: the program will notice, and runs without superpipe until then.
  }
}

__attribute__((destructor)) void finish() {
  if (::getpid() != owner || hooks_disabled.load()) return;
  report_at_exit();
  wait_if_process_ends();
  // No driver call from here on: its destructors may have run. The worker is stopped, its streams
  // and buffers go with the process.
  hooks_disabled.store(true, std::memory_order_relaxed);
  ContextRegistry::of_process().abandon();
}

}  // namespace
}  // namespace superpipe

extern "C" {

/// The library's version, a static string.
SUPERPIPE_EXPORT const char* superpipe_version() { return superpipe::kVersion; }

/// 1 while the library manages what this process does with the driver; 0 where it passes calls
/// through: it is switched off, a variable is bad, the driver is too old, its device cannot be
/// managed, or a parent has used it. What is wrong with driver and device shows at the first call
/// of the driver and the first context.
SUPERPIPE_EXPORT int superpipe_is_active() {
  const bool passes_through = superpipe::process_configuration().off ||
                              superpipe::hooks_disabled.load(std::memory_order_acquire) ||
                              superpipe::ContextRegistry::of_process().has_given_up();
  return passes_through ? 0 : 1;
}

/// The driver in use, a static string; empty before the first driver call, and without a driver.
SUPERPIPE_EXPORT const char* superpipe_driver_path() {
  return superpipe::loaded_driver_path().c_str();
}

/// 1 while every function that cuGetProcAddress returned was mapped by pointer identity, else 0.
SUPERPIPE_EXPORT int superpipe_pointer_identity_holds() {
  return superpipe::pointer_identity_holds() ? 1 : 0;
}

/// Receives what a module of the program marks through NVTX (interposer/nvtx/nvtx_marks.h). @return
/// 1 if it does.
SUPERPIPE_EXPORT int superpipe_attach_to_nvtx(NvtxGetExportTableFunc_t table) {
  return superpipe::attach_to_nvtx(table) ? 1 : 0;
}

}  // extern "C"
