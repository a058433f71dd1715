// What this process shows of itself in shared memory, and what it is asked for there.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "policy/units.h"
#include "profiler/budget_answer.h"
#include "profiler/live_figures.h"
#include "profiler/live_layout.h"

namespace superpipe {

/// The segment of this process: only its owner's user can read or write it.
///
/// Its bytes are read and written by system calls alone, which fail where another program has cut
/// the file short. Each call opens the file for itself, since a program that closes all its
/// descriptors would have ours name a file of its own. A file that was cut short, or that is no
/// segment of this process any more, is written anew. One that is gone, or that another file has
/// replaced, is left alone: the segment cannot be found then.
///
/// publish(), next_request(), wait_for_request() and answer() are for one thread at a time;
/// interrupt() for any. Each takes some microseconds. A forked child inherits the mapping and may
/// only destroy it, which leaves the parent's segment as it is.
class LiveSegment {
 public:
  /// Creates it, in place of one that this process or a dead one of the same id left behind, and
  /// sweeps away the segments of this user's other dead processes.
  /// @return null if there can be none: `problem` then says why, and what to do.
  static std::unique_ptr<LiveSegment> create(const LiveDescription& description,
                                             std::string& problem, const std::string& folder);
  /// Removes what this process showed when it was another program, before an exec.
  static void remove_former(const std::string& folder);
  /// Removes the file, unless this is a forked child or another segment has taken its name.
  ~LiveSegment();
  LiveSegment(const LiveSegment&) = delete;
  LiveSegment& operator=(const LiveSegment&) = delete;

  /// Removes the file early: nothing finds the segment any more. A process that has it mapped can
  /// still read it. Any thread.
  void remove() noexcept;

  void publish(const LiveFigures& figures) noexcept;

  /// What a command asks for: to publish the figures, and perhaps another budget.
  struct Request {
    std::uint32_t sequence;
    std::uint32_t budget_sequence;  ///< of the last request for a budget
    std::optional<Bytes> budget;    ///< of the whole process; nullopt: no other one
  };
  /// What has not been answered: of several budgets the newest. Those before it need no answer of
  /// their own.
  [[nodiscard]] std::optional<Request> next_request() noexcept;
  /// Waits until there is a request, interrupt() is called, or `limit` has passed. Returns after
  /// kLongestWait at the latest, and may return earlier. Sleeps in the kernel.
  void wait_for_request(std::chrono::milliseconds limit) noexcept;
  /// After so long a waiter looks at the file again. A file that is cut short during a wait hides
  /// requests and interrupts for no longer.
  static constexpr std::chrono::milliseconds kLongestWait{1000};
  /// Everything that was asked up to `request` is settled; `answer`: to its budget, if it has one.
  /// Publish the figures before.
  void answer(const Request& request, BudgetAnswer answer) noexcept;
  /// Ends a wait, also one that is about to begin. It looks as if figures were asked for.
  void interrupt() noexcept;

 private:
  class Visit;

  LiveSegment(LiveMapping mapping, std::string path, std::unique_ptr<LiveLayout> own);

  LiveMapping mapping_;
  const std::string path_;
  const int owner_;  // the process that created it
  dev_t device_ = 0;
  ino_t file_ = 0;  // with device_, which file was created at path_
  // What this process has written, to write it anew. Of that thread which publishes.
  const std::unique_ptr<LiveLayout> own_;
  std::atomic<std::uint32_t> interrupts_{0};
  std::uint32_t interrupts_seen_ = 0;  // of the thread that waits
};

}  // namespace superpipe
