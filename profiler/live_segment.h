// What a running process shows of itself in shared memory, and where it can be asked for fresh
// figures and for another budget.
#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "policy/policy_engine.h"
#include "policy/units.h"
#include "profiler/budget_answer.h"

namespace superpipe {

/// The file of the segment of `user`'s process `pid`, one of this namespace's.
///
/// `folder`, here and below: where the segments of all processes lie (profiler/shared_folder.h).
/// Each is a file of its own, named "superpipe-" with the user's id, "-", own_processes(), "-", and
/// the process's id: containers and machines that share the folder have processes of the same id.
[[nodiscard]] std::string live_segment_path(uid_t user, int pid, const std::string& folder);

/// What does not change while a process manages a context.
struct LiveDescription {
  PolicyKind policy = PolicyKind::kResident;
  Bytes device_total;
  /// What every request for another budget would be answered with; kChanged: depends on the
  /// request.
  BudgetAnswer refusal = BudgetAnswer::kChanged;
};

/// Of so many layers, the first ones, a process says how much of each is on the device.
inline constexpr std::size_t kShownLayers = 256;

/// What changes. All figures are of one moment.
struct LiveFigures {
  Bytes budget;  ///< of the whole process, its context included; 0: none
  Bytes limit;   ///< what the pages of buffers may take now
  Bytes pages;   ///< what they take
  Bytes live;    ///< what those of all live buffers would take together

  Bytes context{};             ///< what the context alone took as it was made
  Bytes passthrough{};         ///< what is left to the driver
  Bytes pinned_host{};         ///< host memory that is pinned for what is not on the device
  Bytes host_limit{};          ///< the most that there may be of it
  std::uint64_t taken_ns = 0;  ///< when the figures were taken, by std::chrono::steady_clock

  /// @name Counts since the context was made
  /// @{
  std::uint64_t launches = 0;
  std::uint64_t passes = 0;  ///< that were measured
  Bytes h2d{}, d2h{};        ///< superpipe's own transfers
  std::uint64_t demand_fetches = 0, prefetches = 0;
  std::uint64_t clean_evictions = 0, write_backs = 0;
  std::uint64_t stall_ns = 0;  ///< how long streams waited for fetches, added up over streams
  std::uint64_t budget_changes = 0;
  std::uint64_t errors = 0;
  /// @}

  /// @name The last pass; 0: not known
  /// @{
  std::uint64_t pass_ns = 0;
  std::uint64_t pass_stall_ns = 0;  ///< of that, how long launches waited for fetches
  std::uint64_t bound_ns = 0;       ///< no schedule can make it shorter (least_pass_ms())
  /// @}

  std::uint64_t link_bytes_per_second = 0;  ///< from the host to the device; 0: not measured
  Bytes pass_bytes{};                       ///< persistent bytes of a pass; 0: not known
  std::uint32_t layers = 0;                 ///< as policy learned them; 0: not known
  std::uint32_t k = 0, k_prime = 0;         ///< as scheduled; 0: none, or not known
  /// How much of each layer is on the device, in percent of its bytes, in order of first access.
  std::array<std::uint8_t, kShownLayers> layer_percent{};

  [[nodiscard]] std::uint64_t fetches() const { return demand_fetches + prefetches; }
  [[nodiscard]] std::uint64_t evictions() const { return clean_evictions + write_backs; }

  bool operator==(const LiveFigures&) const = default;
};

/// The layout in shared memory: live_segment.cc.
struct LiveLayout;

/// A mapping of a segment, by which its futexes are named. Only the kernel touches its bytes: where
/// the file has been cut short, that is an error of a system call, and an access would be a signal.
class LiveMapping {
 public:
  /// Takes `layout` over. `descriptor`: the open file, also taken over; -1: none.
  LiveMapping(LiveLayout* layout, int descriptor) : layout_(layout), descriptor_(descriptor) {}
  ~LiveMapping();
  LiveMapping(LiveMapping&& other) noexcept;
  LiveMapping& operator=(LiveMapping&&) = delete;

  LiveLayout* operator->() const { return layout_; }
  [[nodiscard]] int descriptor() const { return descriptor_; }
  /// Closes the open file; the mapping stays.
  void close_descriptor() noexcept;

 private:
  LiveLayout* layout_;
  int descriptor_;
};

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

/// Why a process cannot be looked at.
enum class LiveProblem {
  kNoSuchProcess,
  kOtherUser,       ///< only that user and root may
  kNotManaged,      ///< it has no segment: it manages no context, or not yet, or not any more
  kOtherVersion,    ///< another version of superpipe runs there
  kOtherNamespace,  ///< its id means another process, in a container that shares the folder
  kDamaged,         ///< what lies there is no segment, or says what cannot be
  kUnreadable,      ///< the system does not allow it: errno says why
};

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
