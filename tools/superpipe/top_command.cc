#include "tools/superpipe/top_command.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "policy/budget.h"
#include "profiler/atomic_file.h"
#include "profiler/live_process.h"
#include "profiler/shared_folder.h"
#include "tools/superpipe/exit_code.h"
#include "tools/superpipe/live_text.h"
#include "tools/superpipe/live_watch.h"
#include "tools/superpipe/terminal.h"
#include "tools/superpipe/top_model.h"
#include "tools/superpipe/top_output.h"
#include "tools/superpipe/top_screen.h"

namespace superpipe::cli {
namespace {

using TopClock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kDefaultInterval{1000};
/// Between the two looks of --once, from which its rates come.
constexpr milliseconds kOnceInterval{500};
constexpr milliseconds kShortestInterval{100};
constexpr milliseconds kLongestInterval{3'600'000};
/// How long a look waits for answers: on a terminal keys wait as well.
constexpr milliseconds kScreenPatience{200};
constexpr milliseconds kPatience{1000};
/// How long a process may take to answer a request for another budget.
constexpr milliseconds kBudgetPatience{10'000};
/// How often a signal or an answer is looked for.
constexpr milliseconds kSlice{50};

std::optional<milliseconds> interval_in(const std::string& text) {
  double seconds = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), seconds);
  const bool whole = read.ec == std::errc() && read.ptr == text.data() + text.size();
  const double ms = seconds * 1000;
  if (!whole || !(ms >= static_cast<double>(kShortestInterval.count())) ||
      ms > static_cast<double>(kLongestInterval.count())) {
    return std::nullopt;
  }
  return milliseconds{static_cast<std::int64_t>(ms)};
}

int fail_top(const std::string& line, int code) {
  std::cerr << "superpipe top: " << line << '\n';
  return code;
}

// The first signal that asked this program to end; 0: none has.
volatile std::sig_atomic_t ending_signal = 0;

void note_signal(int signal) { ending_signal = signal; }

/// While it lives, signals that end programs are noted, so that the terminal is restored and files
/// are removed first. A signal that was ignored before stays ignored.
class SignalNotes {
 public:
  SignalNotes() {
    for (std::size_t i = 0; i < kSignals.size(); ++i) {
      struct sigaction noting {};
      noting.sa_handler = note_signal;  // without SA_RESTART: a wait for a key ends
      (void)::sigaction(kSignals[i], nullptr, &before_[i]);
      if (before_[i].sa_handler != SIG_IGN) (void)::sigaction(kSignals[i], &noting, nullptr);
    }
  }
  ~SignalNotes() {
    for (std::size_t i = 0; i < kSignals.size(); ++i) {
      (void)::sigaction(kSignals[i], &before_[i], nullptr);
    }
  }
  SignalNotes(const SignalNotes&) = delete;
  SignalNotes& operator=(const SignalNotes&) = delete;

 private:
  static constexpr std::array<int, 4> kSignals = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
  std::array<struct sigaction, kSignals.size()> before_{};
};

// Sleeps until `end`, or until a signal asks this program to end. @return whether none has.
bool sleep_until(TopClock::time_point end) {
  while (ending_signal == 0 && TopClock::now() < end) {
    std::this_thread::sleep_for(std::min<TopClock::duration>(kSlice, end - TopClock::now()));
  }
  return ending_signal == 0;
}

double unix_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// The looks at processes, and the model of them.
class Looks {
 public:
  Looks(std::optional<int> pid, const std::string& folder)
      : pid_(pid), folder_(folder), watch_(pid, folder) {}

  // Takes a look. @return false if the one process that was to be looked at has gone.
  bool look(milliseconds patience) {
    model_.update(watch_.look(patience));
    return !pid_ || !model_.rows().empty();
  }
  [[nodiscard]] TopModel& model() { return model_; }
  [[nodiscard]] const TopModel& model() const { return model_; }
  [[nodiscard]] const std::string& folder() const { return folder_; }

 private:
  const std::optional<int> pid_;
  const std::string folder_;
  LiveWatch watch_;
  TopModel model_;
};

/// The file of metrics; nothing without a name.
class PrometheusFile {
 public:
  explicit PrometheusFile(std::string path) : path_(std::move(path)) {}

  [[nodiscard]] bool is_wanted() const { return !path_.empty(); }
  /// @return what went wrong; nullopt: nothing.
  std::optional<std::string> write(const TopModel& model) {
    return is_wanted() ? write_file_atomically(path_, top_prometheus(model)) : std::nullopt;
  }
  /// Nobody writes it any longer: what it says would be taken for the present.
  void remove() {
    if (is_wanted()) (void)::unlink(path_.c_str());
  }

 private:
  const std::string path_;
};

// Whoever reads standard output may have gone, and SIGPIPE be ignored. @return what went wrong with
// what was printed since the last call.
std::optional<std::string> flush_output() {
  errno = 0;
  std::cout << std::flush;
  if (std::cout.good()) return std::nullopt;
  const std::string reason = errno != 0 ? std::string(": ") + std::strerror(errno) : "";
  return "cannot write standard output" + reason;
}

void print_table(const Looks& looks) {
  if (looks.model().rows().empty()) {
    std::cout << no_processes(looks.folder()) << '\n';
    return;
  }
  for (const std::string& line : table(looks.model())) std::cout << line << '\n';
}

// Two looks, the second of which shows rates; counts alone need one.
int run_once(const TopOptions& options, Looks& looks, PrometheusFile& file) {
  const bool prints = options.json || !file.is_wanted();
  if (prints) {
    const milliseconds apart =
        options.interval.empty() ? kOnceInterval : *interval_in(options.interval);
    (void)looks.look(kPatience);
    // Where there is nothing to see, there is nothing to wait for.
    if (!looks.model().rows().empty()) std::this_thread::sleep_for(apart);
  }
  (void)looks.look(kPatience);
  if (const auto problem = file.write(looks.model())) return fail_top(*problem, kBadUsage);
  if (options.json) {
    std::cout << top_json(looks.model(), unix_seconds()) << '\n';
  } else if (prints) {
    print_table(looks);
  }
  if (const auto problem = flush_output()) return fail_top(*problem, kBadUsage);
  return kSuccess;
}

// Writes JSON or metrics again and again.
int run_without_screen(const TopOptions& options, milliseconds interval, Looks& looks,
                       PrometheusFile& file) {
  auto next = TopClock::now();
  bool has_failed = false;
  int code = kSuccess;
  for (bool is_first = true;; is_first = false) {
    if (!looks.look(std::min(kPatience, interval))) break;
    const auto problem = file.write(looks.model());
    if (problem && !has_failed) code = fail_top(*problem, kBadUsage);
    if (problem && is_first) return code;
    // Said once, and tried again: a full disk may have room later.
    has_failed = problem.has_value();
    if (!problem) code = kSuccess;
    if (options.json) {
      std::cout << top_json(looks.model(), unix_seconds()) << '\n';
      // Unlike a disk, a pipe does not recover.
      if (const auto gone = flush_output()) {
        code = fail_top(*gone, kBadUsage);
        break;
      }
    }
    next = std::max(next + interval, TopClock::now());
    if (!sleep_until(next)) break;
  }
  file.remove();
  return code;
}

/// A request for another budget whose answer is awaited.
class BudgetChange {
 public:
  explicit BudgetChange(std::string folder) : folder_(std::move(folder)) {}

  // Asks for `size`. @return what to say now.
  std::string begin(int pid, const std::string& size) {
    process_.reset();
    auto opened = LiveProcess::open(pid, folder_);
    if (const auto* const problem = std::get_if<LiveProblem>(&opened)) {
      return text_of(*problem, pid, folder_);
    }
    auto& process = std::get<LiveProcess>(opened);
    const Bytes budget = parse_size(size)->resolve(process.description().device_total);
    const auto outcome = process.ask_budget(budget);
    if (outcome != LiveProcess::Outcome::kAnswered) return text_of(outcome, pid);
    process_ = std::make_unique<LiveProcess>(std::move(process));
    asked_ = format_bytes(budget);
    deadline_ = TopClock::now() + kBudgetPatience;
    return "process " + std::to_string(pid) + " is asked for a budget of " + asked_;
  }
  // What there is to say of the answer; nullopt: nothing new.
  std::optional<std::string> news() {
    if (process_ == nullptr) return std::nullopt;
    const int pid = process_->pid();
    if (const auto answer = process_->budget_answer()) {
      process_.reset();
      if (*answer != BudgetAnswer::kChanged) return text_of(*answer, pid);
      return "the budget of process " + std::to_string(pid) + " is " + asked_ + " now";
    }
    if (TopClock::now() < deadline_) return std::nullopt;
    const bool runs = process_->is_running();
    process_.reset();  // others may ask now
    return text_of(runs ? LiveProcess::Outcome::kTimedOut : LiveProcess::Outcome::kEnded, pid);
  }

 private:
  const std::string folder_;
  std::unique_ptr<LiveProcess> process_;  // null: none is asked
  std::string asked_;
  TopClock::time_point deadline_;
};

int run_on_screen(milliseconds interval, const std::string& interval_text, Looks& looks) {
  std::string problem;
  const auto terminal = Terminal::open(problem);
  if (terminal == nullptr) return fail_top(problem, kProblemFound);
  TopScreen screen(interval_text, looks.folder(), terminal->has_blocks());
  BudgetChange change(looks.folder());
  const milliseconds patience = std::min(kScreenPatience, interval);
  auto next = TopClock::now();
  while (ending_signal == 0) {
    if (TopClock::now() >= next) {
      if (!looks.look(patience)) break;
      next = TopClock::now() + interval;
    }
    if (auto news = change.news()) {
      screen.say(std::move(*news));
      next = TopClock::now();  // which shows what came of it
    }
    terminal->draw(screen.lines(looks.model(), terminal->width(), terminal->height()));
    const auto left = std::chrono::ceil<milliseconds>(next - TopClock::now());
    const int key = terminal->read_key(std::clamp(left, milliseconds{0}, kSlice));
    const KeyResult result = screen.press(key, looks.model());
    if (result.quits) break;
    if (result.pid != 0) screen.say(change.begin(result.pid, result.size));
  }
  return kSuccess;
}

}  // namespace

std::optional<std::string> problem_with(const TopOptions& options) {
  if (!options.pid.empty() && !pid_in(options.pid)) {
    return "'" + options.pid + "' is no process: it takes a process's id, or nothing";
  }
  if (!options.interval.empty() && !interval_in(options.interval)) {
    return "--interval " + options.interval + ": it takes seconds, such as 2 (0.1 to 3600)";
  }
  return std::nullopt;
}

int top_command(const TopOptions& options, const std::string& folder) {
  if (const auto problem = problem_with_shared_folder(folder, FolderUse::kLook); !problem.empty()) {
    return fail_top(problem + advice_on_shared_folder(), kProblemFound);
  }
  const std::optional<int> pid = options.pid.empty() ? std::nullopt : pid_in(options.pid);
  if (pid) {
    const auto opened = LiveProcess::open(*pid, folder);
    if (const auto* const problem = std::get_if<LiveProblem>(&opened)) {
      return fail_top(text_of(*problem, *pid, folder), kProblemFound);
    }
  }
  Looks looks(pid, folder);
  PrometheusFile file(options.prometheus);
  const bool has_terminal = ::isatty(STDOUT_FILENO) == 1 && ::isatty(STDIN_FILENO) == 1;
  const bool is_repeated = options.json || file.is_wanted() || has_terminal;
  if (options.once || !is_repeated) return run_once(options, looks, file);
  const milliseconds interval =
      options.interval.empty() ? kDefaultInterval : *interval_in(options.interval);
  int code = kSuccess;
  {
    const SignalNotes notes;
    if (options.json || file.is_wanted()) {
      code = run_without_screen(options, interval, looks, file);
    } else {
      code = run_on_screen(interval, options.interval.empty() ? "1" : options.interval, looks);
    }
  }
  // Whoever waits for this program sees what ended it.
  if (ending_signal != 0) (void)::raise(ending_signal);
  return code;
}

}  // namespace superpipe::cli
