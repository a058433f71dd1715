#include "interposer/log.h"

// The only file that sees spdlog: its headers are slow to compile. Header-only, with fmt too: there
// are no static archives of either, and the preload may need no shared ones.
#ifndef FMT_HEADER_ONLY
#define FMT_HEADER_ONLY
#endif
#include <fcntl.h>
#include <signal.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <ctime>
#include <memory>

#include "settings/settings.h"

namespace superpipe {
namespace {

constexpr char kPattern[] = "superpipe: %v";
constexpr char kFilePattern[] = "%Y-%m-%d %H:%M:%S.%e [%l] %v";

spdlog::level::level_enum level_of(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
    case LogLevel::kOff:
      break;
  }
  return spdlog::level::off;
}

std::unique_ptr<spdlog::logger> make_logger(LogLevel level, const std::string& file) {
  std::shared_ptr<spdlog::sinks::sink> sink;
  if (!file.empty()) {
    try {
      sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(file);
      sink->set_pattern(kFilePattern);
    } catch (const spdlog::spdlog_ex& problem) {
      sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
      sink->set_pattern(kPattern);
      sink->log({"superpipe", spdlog::level::err,
                 std::string(variable_of(SettingId::kLog)) + ": " + problem.what()});
    }
  } else {
    sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
    sink->set_pattern(kPattern);
  }
  auto logger = std::make_unique<spdlog::logger>("superpipe", std::move(sink));
  logger->set_level(level_of(level));
  logger->flush_on(spdlog::level::trace);
  return logger;
}

// Never destroyed: hooks may still run in other libraries' destructors.
spdlog::logger*& logger() {
  static spdlog::logger* instance = make_logger(LogLevel::kWarning, "").release();
  return instance;
}

// What a handler of signals reads. Never destroyed, as the logger.
LogLevel least_level = LogLevel::kWarning;
int log_descriptor = -1;

iovec part_of_line(std::string_view text) noexcept {
  return {const_cast<char*>(text.data()), text.size()};
}

}  // namespace

void configure_log(LogLevel level, const std::string& file) {
  logger() = make_logger(level, file).release();
  least_level = level;
  if (!file.empty()) log_descriptor = ::open(file.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
}

void log_line(LogLevel level, std::string_view text) noexcept {
  try {
    logger()->log(level_of(level), spdlog::string_view_t(text.data(), text.size()));
  } catch (...) {
    // Nothing can be said about a line that cannot be written.
  }
}

void log_line_in_signal(LogLevel level, std::string_view text) noexcept {
  if (level < least_level || level == LogLevel::kOff) return;
  const int error = errno;
  // A pipe that is not read any more raises a signal of its own.
  sigset_t pipe{};
  sigset_t former{};
  ::sigemptyset(&pipe);
  ::sigaddset(&pipe, SIGPIPE);
  ::pthread_sigmask(SIG_BLOCK, &pipe, &former);
  const std::array line{part_of_line("superpipe: "), part_of_line(text), part_of_line("\n")};
  const int target = log_descriptor >= 0 ? log_descriptor : STDERR_FILENO;
  if (::writev(target, line.data(), int{line.size()}) < 0 && errno == EPIPE &&
      ::sigismember(&former, SIGPIPE) == 0) {
    constexpr timespec kNow{};
    ::sigtimedwait(&pipe, nullptr, &kNow);
  }
  ::pthread_sigmask(SIG_SETMASK, &former, nullptr);
  errno = error;
}

}  // namespace superpipe
