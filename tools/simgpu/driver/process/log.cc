#include "tools/simgpu/driver/process/log.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdarg>
#include <cstddef>
#include <cstdio>

namespace simgpu {
namespace {

std::atomic<LogLevel> level_enabled{LogLevel::kWarning};

}  // namespace

bool log_enabled(LogLevel level) noexcept {
  return level <= level_enabled.load(std::memory_order_relaxed);
}

void set_log_level(LogLevel level) noexcept { level_enabled = level; }

void log_line(LogLevel level, const char* format, ...) noexcept {
  if (!log_enabled(level)) return;
  char line[1024];
  constexpr std::size_t kLast = sizeof(line) - 1;
  int length = std::snprintf(line, sizeof(line), "simgpu: ");
  va_list arguments;
  va_start(arguments, format);
  length += std::vsnprintf(line + length, sizeof(line) - static_cast<std::size_t>(length), format,
                           arguments);
  va_end(arguments);
  const std::size_t end = std::min(static_cast<std::size_t>(std::max(length, 0)), kLast);
  line[end] = '\n';
  // A line that cannot be written is lost: there is no other place to report it.
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line, end + 1);
}

}  // namespace simgpu
