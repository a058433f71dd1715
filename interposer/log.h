// Lines for the user and the log, never from the hot path.
#pragma once

#include <string>
#include <string_view>

namespace superpipe {

/// How much a line matters; SUPERPIPE_LOG names the least that is written.
enum class LogLevel { kDebug, kInfo, kWarning, kError, kOff };

/// Where lines go from now on: `file`, or standard error if it is empty. Not thread-safe: called
/// once, before the program runs.
void configure_log(LogLevel level, const std::string& file);

/// Writes one line, "superpipe: `text`", if `level` is enabled. Any thread; takes the sink's lock
/// and writes at once. Never throws: a line that cannot be written is lost.
void log_line(LogLevel level, std::string_view text) noexcept;

/// As log_line(), for a handler of signals: takes no lock, allocates nothing, and tells a log file
/// no time. Async-signal-safe.
void log_line_in_signal(LogLevel level, std::string_view text) noexcept;

}  // namespace superpipe
