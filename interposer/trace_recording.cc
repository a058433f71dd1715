#include "interposer/trace_recording.h"

#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <fstream>
#include <iterator>

#include "interposer/log.h"
#include "interposer/version.h"
#include "policy/settings.h"

namespace superpipe {
namespace {

using Clock = std::chrono::steady_clock;

void complain(const std::string& why) {
  log_line(LogLevel::kError, std::string(variable_of(SettingId::kTrace)) + ": " + why +
                                 "; the program goes on without being recorded");
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
  options.on_problem = [](const std::string& why) { complain(why); };
  std::unique_ptr<TraceRecording> recording(
      new TraceRecording(std::move(*file), start, std::move(options)));
  if (const auto problem = recording->recorder_.begin(properties)) {
    complain(*problem);
    return nullptr;
  }
  TraceRecording* const self = recording.get();
  const bool started = self->thread_.start([self] {
    self->recorder_.run();
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
  recorder_.finish(Clock::now());
  const TraceTotals totals = recorder_.totals();
  return "trace: " + std::to_string(totals.events) + " events, " + std::to_string(totals.dropped) +
         " dropped, " + std::to_string(totals.bytes) + " bytes in " + file_->path();
} catch (const std::exception&) {
  return "";
}

void TraceRecording::abandon() noexcept {
  has_finished_.store(true);
  recorder_.stop();
  recorder_.end();
  (void)thread_.abandon();
  file_->leave_to_parent();
}

void begin_trace_run() {
  constexpr int kKeep = 0;
  ::setenv(kTraceRunVariable, make_trace_run().c_str(), kKeep);
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
