// What a running process shows of itself in shared memory, and where it can be asked for another
// budget.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "policy/policy_engine.h"
#include "policy/units.h"
#include "profiler/budget_answer.h"

namespace superpipe {

/// Where the segments of all processes lie: POSIX shared memory. Each is a file of its own, named
/// "superpipe-" with the user's id, "-", and the process's id.
inline constexpr const char* kLiveFolder = "/dev/shm";

/// What does not change while a process manages a context.
struct LiveDescription {
  PolicyKind policy = PolicyKind::kResident;
  Bytes device_total;
  /// What every request for another budget would be answered with; kChanged: it depends on it.
  BudgetAnswer refusal = BudgetAnswer::kChanged;
};

/// What changes. The figures are read one by one: those of one moment may come from two updates.
struct LiveFigures {
  Bytes budget;  ///< of the whole process, its context included; 0: none
  Bytes limit;   ///< what the pages of buffers may take now
  Bytes pages;   ///< what they take
  Bytes live;    ///< what those of all live buffers would take together
};

/// The layout in shared memory: live_segment.cc.
struct LiveLayout;

/// A mapping of a segment.
class LiveMapping {
 public:
  /// Takes `layout` over. `descriptor`: the open file, also taken over; -1: none.
  LiveMapping(LiveLayout* layout, int descriptor) : layout_(layout), descriptor_(descriptor) {}
  ~LiveMapping();
  LiveMapping(LiveMapping&& other) noexcept;
  LiveMapping& operator=(LiveMapping&&) = delete;

  LiveLayout* operator->() const { return layout_; }
  [[nodiscard]] int descriptor() const { return descriptor_; }

 private:
  LiveLayout* layout_;
  int descriptor_;
};

/// The segment of this process: only its owner's user can read or write it.
///
/// publish(), next_request() and answer() are for one thread at a time; interrupt() for any. A
/// forked child inherits the mapping and may only destroy it, which leaves the parent's segment as
/// it is.
class LiveSegment {
 public:
  /// Creates it, in place of one that this process or a dead one of the same id left behind, and
  /// sweeps away the segments of this user's other dead processes.
  /// @return null if there can be none: `problem` then says why.
  static std::unique_ptr<LiveSegment> create(const LiveDescription& description,
                                             std::string& problem,
                                             const std::string& folder = kLiveFolder);
  /// Removes the file, unless this is a forked child or another segment has taken its name.
  ~LiveSegment();
  LiveSegment(const LiveSegment&) = delete;
  LiveSegment& operator=(const LiveSegment&) = delete;

  /// Removes the file early: nobody finds the segment any more. Whoever has it mapped still can
  /// read it. Any thread.
  void remove() noexcept;

  void publish(const LiveFigures& figures) noexcept;

  /// What somebody asks for.
  struct Request {
    std::uint32_t sequence;
    std::optional<Bytes> budget;  ///< of the whole process; nullopt: only to publish the figures
  };
  /// The newest request that has not been answered. Those before it need no answer of their own.
  [[nodiscard]] std::optional<Request> next_request() const noexcept;
  /// Waits until there is a request, interrupt() is called, or `limit` has passed; may return
  /// early. Sleeps in the kernel.
  void wait_for_request(std::chrono::milliseconds limit) noexcept;
  /// Everything that was asked up to `sequence` is settled. Publish the figures before.
  void answer(std::uint32_t sequence, BudgetAnswer answer) noexcept;
  /// Ends a wait, also one that is about to begin. It looks as if the last request was made again.
  void interrupt() noexcept;

 private:
  LiveSegment(LiveMapping mapping, std::string path);

  LiveMapping mapping_;
  const std::string path_;
  const int owner_;  // the process that created it
};

/// Why a process cannot be looked at.
enum class LiveProblem {
  kNoSuchProcess,
  kOtherUser,     ///< only that user and root may
  kNotManaged,    ///< it has no segment: it manages no context, or not yet, or not any more
  kOtherVersion,  ///< another version of superpipe runs there
  kUnreadable,    ///< the system does not allow it: errno says why
};

/// Another process's segment.
///
/// Not thread-safe. Never trusts what it reads further than to show it.
class LiveProcess {
 public:
  /// @return the process's segment, or why it cannot be had.
  static std::variant<LiveProcess, LiveProblem> open(int pid,
                                                     const std::string& folder = kLiveFolder);

  [[nodiscard]] int pid() const;
  [[nodiscard]] LiveDescription description() const;
  /// As they were published last: with a request, or before it.
  [[nodiscard]] LiveFigures figures() const;

  /// How a request ended.
  enum class Outcome {
    kAnswered,
    kTimedOut,  ///< the process may still carry it out later
    kBusy,      ///< another command is asking the process for something
    kEnded,     ///< the process has ended
  };
  /// Asks for `budget`, of the whole process, or, without, for fresh figures. Waits for the answer,
  /// at most `limit`. @return kAnswered: `answer` is set, and figures() are of then or later.
  Outcome request(std::optional<Bytes> budget, std::chrono::milliseconds limit,
                  BudgetAnswer& answer);
  /// Whether the process still runs.
  [[nodiscard]] bool is_running() const;

 private:
  explicit LiveProcess(LiveMapping mapping) : mapping_(std::move(mapping)) {}

  LiveMapping mapping_;
};

/// One process that has a segment.
struct LiveEntry {
  int pid = 0;
  std::variant<LiveProcess, LiveProblem> process;
};

/// This user's processes that have a segment, by id. Sweeps the segments of dead ones away. Empty
/// where there is no shared memory.
[[nodiscard]] std::vector<LiveEntry> list_live_processes(const std::string& folder = kLiveFolder);

}  // namespace superpipe
