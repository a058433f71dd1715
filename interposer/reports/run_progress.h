// The line that tells how far loading and the first passes are.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "interposer/reports/terminal_line.h"
#include "profiler/live_figures.h"

namespace superpipe {

/// What the line says of `figures`: this process's id (several may share a terminal), the last
/// pass, what is loaded and where, bytes moved, and what was learned. `is_loading`: whether the
/// program is still loading, which is then said in the place of passes. Where all of it is longer
/// than `columns`, whole fields are left out: layers first, then what is loaded, the bound, and
/// last the bytes moved. Throws std::bad_alloc.
[[nodiscard]] std::string progress_text(const LiveFigures& figures, bool is_loading,
                                        std::size_t columns);

/// Shows the line about once a second, until the first passes are known, or kLongest has passed
/// since the first launch, or since anything was last allocated, freed, launched or brought in.
///
/// Thread-safe: a thread of superpipe's own shows it, and the thread that ends the process removes
/// it.
class RunProgress {
 public:
  using Clock = TerminalLine::Clock;

  /// So many measured passes show what a pass takes.
  static constexpr std::uint64_t kFirstPasses = 3;
  /// A program may never repeat itself, or load and launch nothing: so long after its first launch,
  /// and after the last change of what it holds, launches and brings in, the line goes.
  static constexpr std::chrono::seconds kLongest{60};
  /// How often tick() should be called.
  static constexpr std::chrono::milliseconds kInterval{1000};

  explicit RunProgress(std::unique_ptr<TerminalLine> line) : line_(std::move(line)) {}

  /// Shows what `figures` says at `now`. Its own mutex is held meanwhile: `figures` must not call
  /// this object, and may take any other lock that no caller of end() holds. Nothing is thrown:
  /// where `figures` throws, or memory runs out, the line is removed, and does not come back.
  /// @return whether there is more to come.
  bool tick(const std::function<LiveFigures()>& figures, Clock::time_point now) noexcept;
  /// Removes the line, which does not come back. Waits for a tick 0.1 s at most.
  void end() noexcept;

 private:
  struct Seen {
    Bytes live{};
    std::uint64_t launches = 0;
    Bytes h2d{};
    bool operator==(const Seen&) const = default;
  };
  bool update(const std::function<LiveFigures()>& figures, Clock::time_point now);

  std::timed_mutex mutex_;
  std::unique_ptr<TerminalLine> line_;  // null: ended
  std::optional<Clock::time_point> last_tick_;
  std::optional<Clock::time_point> first_launch_;
  Seen seen_;                                 // at the last tick
  std::optional<Clock::time_point> changed_;  // when that became so
};

}  // namespace superpipe
