#include "tools/simgpu/driver/process/log.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdarg>
#include <cstddef>
#include <cstdio>
#include <mutex>
#include <new>
#include <string>
#include <string_view>

namespace simgpu {
namespace {

std::atomic<LogLevel> level_enabled{LogLevel::kWarning};

/// What a driver keeps of its log at most.
constexpr std::size_t kMostKept = 25600;

struct KeptLines {
  std::mutex mutex;
  std::string text;  ///< guarded by mutex
};

/// Never destroyed: streams may still run when the process ends.
KeptLines& kept_lines() {
  static auto* const instance = new KeptLines;
  return *instance;
}

void keep(std::string_view line) noexcept try {
  KeptLines& kept = kept_lines();
  const std::lock_guard lock{kept.mutex};
  kept.text += line;
  if (kept.text.size() > kMostKept) {
    kept.text.erase(0, kept.text.find('\n', kept.text.size() - kMostKept) + 1);
  }
} catch (const std::bad_alloc&) {
  // The line is on standard error.
}

}  // namespace

std::string logged_errors() {
  KeptLines& kept = kept_lines();
  const std::lock_guard lock{kept.mutex};
  return kept.text;
}

bool log_enabled(LogLevel level) noexcept {
  return level <= level_enabled.load(std::memory_order_relaxed);
}

void set_log_level(LogLevel level) noexcept { level_enabled = level; }

void log_line(LogLevel level, const char* format, ...) noexcept {
  if (!log_enabled(level) && level != LogLevel::kError) return;
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
  if (level == LogLevel::kError) keep({line, end + 1});
  if (!log_enabled(level)) return;
  // A line that cannot be written is lost: there is no other place to report it.
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line, end + 1);
}

}  // namespace simgpu
