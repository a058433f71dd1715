// What another process shows of itself in shared memory, and how it is asked for fresh figures and
// for another budget.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "policy/units.h"
#include "profiler/budget_answer.h"
#include "profiler/live_figures.h"
#include "profiler/live_layout.h"

namespace superpipe {

/// Another process's segment.
///
/// Not thread-safe. Believes nothing of what it reads further than to show it: any bytes may stand
/// there, and change or go at any moment. It touches the shared memory through system calls alone.
class LiveProcess {
 public:
  /// @return the process's segment, or why it cannot be had.
  static std::variant<LiveProcess, LiveProblem> open(int pid, const std::string& folder);

  [[nodiscard]] int pid() const { return pid_; }
  /// Together with the id, this names the process and never another one.
  [[nodiscard]] std::uint64_t start_time() const { return start_time_; }
  /// As it was when the segment was opened.
  [[nodiscard]] const LiveDescription& description() const { return description_; }
  /// As they were published last: with a request, or before it. @return nullopt: they cannot be, or
  /// the segment is no longer one.
  [[nodiscard]] std::optional<LiveFigures> figures() const;

  /// How a request ended.
  enum class Outcome {
    kAnswered,
    kTimedOut,  ///< the process may still carry it out later
    kBusy,      ///< another command is asking the process for another budget
    kEnded,     ///< the process has ended, or its segment is no longer one
  };

  /// Asks for fresh figures; does not wait, and disturbs no command that asks for another budget.
  /// @return what has_answered() takes; nullopt: the segment is no longer one.
  std::optional<std::uint32_t> ask();
  /// Whether figures() are of the moment of that ask(), or later.
  [[nodiscard]] bool has_answered(std::uint32_t asked) const;
  /// Waits until has_answered(asked), at most `limit`; may return earlier.
  void wait_for_answer(std::uint32_t asked, std::chrono::milliseconds limit) const;

  /// Asks for `budget`, of the whole process; does not wait. @return kAnswered: it was asked for,
  /// and budget_answer() will tell the answer. No other command can ask for a budget until it has
  /// told that, or forget_budget() was called.
  Outcome ask_budget(Bytes budget);
  /// The answer to ask_budget(); nullopt: not yet.
  std::optional<BudgetAnswer> budget_answer();
  /// The answer is not waited for any longer. The process may still carry it out.
  void forget_budget();

  /// Asks for `budget`, or, without, for fresh figures. Waits for the answer, at most `limit`.
  /// @return kAnswered: `answer` is set, and figures() are of then or later.
  Outcome request(std::optional<Bytes> budget, std::chrono::milliseconds limit,
                  BudgetAnswer& answer);
  /// Whether the process still runs.
  [[nodiscard]] bool is_running() const;

 private:
  LiveProcess(LiveMapping mapping, int pid, std::uint64_t start_time,
              const LiveDescription& description)
      : mapping_(std::move(mapping)),
        pid_(pid),
        start_time_(start_time),
        description_(description) {}

  LiveMapping mapping_;  // for its descriptor, and to name futexes
  int pid_;
  std::uint64_t start_time_;
  LiveDescription description_;
  std::optional<std::uint32_t> budget_asked_;  // while the answer is awaited
};

/// One process that has a segment.
struct LiveEntry {
  int pid = 0;
  std::variant<LiveProcess, LiveProblem> process;
};

/// This user's processes that have a segment, by id, and what else lies there under such a name.
/// Sweeps the segments of dead processes away. Empty where there is no such folder.
[[nodiscard]] std::vector<LiveEntry> list_live_processes(const std::string& folder);

}  // namespace superpipe
