#include "interposer/recording/trace_recording.h"

#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <fstream>
#include <iterator>
#include <memory>
#include <new>
#include <span>
#include <string_view>

#include "interposer/log.h"
#include "interposer/recording/call_sites.h"
#include "interposer/version.h"
#include "settings/settings.h"

namespace superpipe {
namespace {

using Clock = std::chrono::steady_clock;

void complain(std::string_view why) noexcept try {
  log_line(LogLevel::kError, std::string(variable_of(SettingId::kTrace)) + ": " + std::string(why) +
                                 "; the program goes on without being recorded");
} catch (const std::bad_alloc&) {
  log_line(LogLevel::kError, "a trace ends: out of memory");
}

// The words of the command line, as the system has them.
std::vector<std::string> command_line() {
  std::ifstream in("/proc/self/cmdline", std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  std::vector<std::string> words;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\0', at), text.size());
    words.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

}  // namespace

TraceRecording::TraceRecording(std::unique_ptr<TraceFile> file, Clock::time_point start,
                               TraceRecorder::Options options)
    : file_(std::move(file)), recorder_(*file_, start, std::move(options)) {}

TraceRecording::~TraceRecording() {
  recorder_.stop();
  recorder_.end();
  thread_.join();
}

std::unique_ptr<TraceRecording> TraceRecording::start(
    const std::string& path, Properties properties,
    std::function<std::string(KernelId)> kernel_name) noexcept try {
  const auto start = Clock::now();
  const auto since_1970 = std::chrono::system_clock::now().time_since_epoch();
  const char* const run = std::getenv(kTraceRunVariable);
  const std::string run_name = run != nullptr ? run : make_trace_run();
  auto file = TraceFile::create(path, run_name);
  if (!file.ok()) {
    complain(file.error().message);
    return nullptr;
  }
  properties.emplace_back(kTraceRunKey, run_name);
  properties.emplace_back("trace.start_ns", std::to_string(start.time_since_epoch().count()));
  properties.emplace_back(
      "trace.start_unix_ns",
      std::to_string(std::chrono::duration_cast<std::chrono::nanoseconds>(since_1970).count()));
  TraceRecorder::Options options;
  options.kernel_name = std::move(kernel_name);
  options.call_site_frames = [names = std::make_shared<FrameNames>()](std::span<void* const> frames,
                                                                      std::string_view python) {
    return names->describe(frames, python);
  };
  options.on_problem = [](const std::string& why) { complain(why); };
  std::unique_ptr<TraceRecording> recording(
      new TraceRecording(std::move(*file), start, std::move(options)));
  if (const auto problem = recording->recorder_.begin(properties)) {
    complain(*problem);
    return nullptr;
  }
  TraceRecording* const self = recording.get();
  const bool started = self->thread_.start("superpipe-trace", [self] {
    self->recorder_.run();
    // Here and not where finish() is called: the disk may not take it, and signals that a broken
    // pipe or a limit of the file's size raises are blocked on this thread.
    self->is_whole_.store(self->recorder_.finish(Clock::now()));
    self->has_run_.store(true);
  });
  if (!started) {
    complain("there is no thread to be had that writes");
    return nullptr;
  }
  return recording;
} catch (const std::exception& error) {
  complain(error.what());
  return nullptr;
}

std::string TraceRecording::finish(std::chrono::milliseconds limit) noexcept try {
  if (has_finished_.exchange(true)) return "";
  recorder_.end();
  const auto deadline = Clock::now() + limit;
  while (!has_run_.load() && Clock::now() < deadline) ::usleep(1000);
  if (!thread_.abandon()) {
    recorder_.stop();
    complain("the disk does not take what was recorded, of which the last part is lost");
    return "";
  }
  file_->close();
  if (!is_whole_.load()) return "";
  const TraceTotals totals = recorder_.totals();
  return "trace: " + std::to_string(totals.events) + " events, " + std::to_string(totals.dropped) +
         " dropped, " + std::to_string(totals.bytes) + " bytes in " + file_->path();
} catch (const std::exception&) {
  return "";
}

void TraceRecording::abandon() noexcept {
  const bool had_finished = has_finished_.exchange(true);
  recorder_.stop();
  recorder_.end();
  const bool has_ended = thread_.abandon();
  // A thread that finish() or this gave up may still be writing: then the descriptor goes with the
  // process. The child of a fork has no such thread.
  if (!thread_.is_owner() || (has_ended && !had_finished)) file_->close();
}

void begin_trace_run() {
  constexpr int kKeep = 0;
  ::setenv(kTraceRunVariable, make_trace_run().c_str(), kKeep);
}

void say_if_nothing_was_recorded(const std::string& path) noexcept try {
  const char* const owner = std::getenv(kTraceOwnerVariable);
  const char* const run = std::getenv(kTraceRunVariable);
  if (owner == nullptr || run == nullptr || owner != std::to_string(::getpid())) return;
  if (has_trace_file_of(path, run)) return;
  log_line(LogLevel::kError,
           "nothing was recorded in " + path +
               ": the command created no CUDA context that superpipe saw; it does not see programs "
               "that are statically linked, have other privileges or clear LD_PRELOAD");
} catch (const std::exception&) {
  // Out of memory at exit: the missing file says it.
}

TraceRecording::Properties process_properties() {
  TraceRecording::Properties properties;
  properties.emplace_back("superpipe.version", kVersion);
  properties.emplace_back("process.id", std::to_string(::getpid()));
  properties.emplace_back("process.parent", std::to_string(::getppid()));
  for (std::string& word : command_line()) {
    properties.emplace_back("process.argument", std::move(word));
  }
  for (const Setting& setting : all_settings()) {
    const char* const value = setting.has_variable() ? std::getenv(setting.variable) : nullptr;
    if (value != nullptr)
      properties.emplace_back(std::string("setting.") + setting.variable, value);
  }
  return properties;
}

}  // namespace superpipe
