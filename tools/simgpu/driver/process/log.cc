#include "tools/simgpu/driver/process/log.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdarg>
#include <cstddef>
#include <cstdio>
#include <functional>
#include <map>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

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

struct Listeners {
  std::mutex mutex;
  std::map<std::uint64_t, std::function<void(std::string_view text)>> by_number;
  std::uint64_t next = 1;
};

Listeners& listeners() {
  static auto* const instance = new Listeners;
  return *instance;
}

// What a listener causes itself is not told: it could cause that again.
constinit thread_local bool is_telling = false;

void tell_listeners(std::string_view text) noexcept try {
  if (is_telling) return;
  std::vector<std::function<void(std::string_view text)>> functions;
  {
    const std::lock_guard lock{listeners().mutex};
    for (const auto& [number, function] : listeners().by_number) functions.push_back(function);
  }
  is_telling = true;
  for (const auto& function : functions) function(text);
  is_telling = false;
} catch (const std::bad_alloc&) {
  // The line is on standard error.
}

}  // namespace

std::uint64_t add_log_listener(std::function<void(std::string_view text)> function) {
  const std::lock_guard lock{listeners().mutex};
  listeners().by_number.emplace(listeners().next, std::move(function));
  return listeners().next++;
}

bool remove_log_listener(std::uint64_t number) noexcept {
  const std::lock_guard lock{listeners().mutex};
  return listeners().by_number.erase(number) != 0;
}

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
  if (level == LogLevel::kError) {
    keep({line, end + 1});
    tell_listeners({line, end});
  }
  if (!log_enabled(level)) return;
  // A line that cannot be written is lost: there is no other place to report it.
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line, end + 1);
}

}  // namespace simgpu
