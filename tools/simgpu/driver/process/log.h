// Lines on standard error. Off the hot path; SIMGPU_LOG chooses the level (default: warning).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace simgpu {

enum class LogLevel { kError, kWarning, kInfo, kDebug };

/// Writes one line "simgpu: <message>" to standard error if `level` is enabled, in one write(2), so
/// that lines of threads do not mix. printf-style. Thread-safe.
__attribute__((format(printf, 2, 3))) void log_line(LogLevel level, const char* format,
                                                    ...) noexcept;

/// The latest lines of kError, written or not, each with its newline: what cuLogsDumpToMemory
/// gives. Thread-safe. Throws std::bad_alloc.
std::string logged_errors();

/// Calls `function` with each line of kError from now on, in the thread that logs it, which may be
/// one that does a stream's work. Not with lines that `function` causes itself. The text is without
/// its newline. @return a number for remove_log_listener(). Thread-safe.
/// Throws std::bad_alloc.
std::uint64_t add_log_listener(std::function<void(std::string_view text)> function);

/// @return false if there is none of that number. A call that has begun may still be under way.
bool remove_log_listener(std::uint64_t number) noexcept;

/// Whether lines of `level` are written.
bool log_enabled(LogLevel level) noexcept;

/// Sets the level. Called once, by the configuration.
void set_log_level(LogLevel level) noexcept;

}  // namespace simgpu
