// Looks at running superpipe processes again and again, and waits long for none of them.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "profiler/live_process.h"

namespace superpipe::cli {

/// What one look at a process found.
struct ProcessLook {
  int pid = 0;
  std::uint64_t start_time = 0;  ///< with the id, this names the process for good
  std::string program;           ///< process_name()
  /// Why nothing more is known; nullopt: what follows is.
  std::optional<LiveProblem> problem{};
  bool answers = true;  ///< false: it has not answered for a second, and the figures are older
  LiveDescription description{};
  LiveFigures figures{};
};

/// Asks processes for their figures. Not thread-safe.
///
/// A process answers within a millisecond, whatever its program does, unless it is stopped or a
/// call of the driver hangs that superpipe made itself.
class LiveWatch {
 public:
  /// Looks at `pid`, or, without, at all processes of this user. `folder`: as in live_layout.h.
  LiveWatch(std::optional<int> pid, std::string folder) : pid_(pid), folder_(std::move(folder)) {}

  /// Asks all of them at once and waits for their answers, at most `patience` for all together;
  /// not at all for those that have not answered since the look before. @return the processes by
  /// id; those that have ended are not there, and neither is a `pid` that has no segment.
  std::vector<ProcessLook> look(std::chrono::milliseconds patience);

 private:
  using Clock = std::chrono::steady_clock;

  /// What is remembered of a process from look to look.
  struct Memory {
    std::uint64_t start_time = 0;
    std::uint64_t taken_ns = 0;                     ///< of the figures that were seen last
    std::optional<Clock::time_point> silent_since;  ///< the first ask() without an answer
  };
  struct Asked;

  [[nodiscard]] std::vector<LiveEntry> entries() const;
  void finish(Asked& asked);

  const std::optional<int> pid_;
  const std::string folder_;
  std::map<int, Memory> memories_;
};

}  // namespace superpipe::cli
