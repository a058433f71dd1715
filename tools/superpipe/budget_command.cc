#include "tools/superpipe/budget_command.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "policy/budget.h"
#include "policy/policy_engine.h"
#include "profiler/live_segment.h"
#include "tools/superpipe/exit_code.h"

namespace superpipe::cli {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kDefaultTimeout{10'000};
constexpr milliseconds kMostTimeout{86'400'000};
/// How long a process is given for its figures where many are listed.
constexpr milliseconds kFiguresTimeout{500};
/// How often the pages are looked at, and how often that is said.
constexpr milliseconds kLook{10};
constexpr milliseconds kProgress{1000};

int fail_budget(const std::string& line) {
  std::cerr << "superpipe budget: " << line << '\n';
  return kProblemFound;
}

std::optional<int> pid_in(const std::string& text) {
  int pid = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), pid);
  const bool whole = read.ec == std::errc() && read.ptr == text.data() + text.size();
  return whole && pid > 0 ? std::optional(pid) : std::nullopt;
}

std::optional<milliseconds> timeout_in(const std::string& text) {
  if (text.empty()) return kDefaultTimeout;
  double seconds = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), seconds);
  const bool whole = read.ec == std::errc() && read.ptr == text.data() + text.size();
  if (!whole || !(seconds >= 0.001) || seconds * 1000 > static_cast<double>(kMostTimeout.count())) {
    return std::nullopt;
  }
  return milliseconds{static_cast<std::int64_t>(seconds * 1000)};
}

std::string process_name(int pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/comm");
  std::string name;
  std::getline(file, name);
  return name;
}

std::string named(int pid) { return "process " + std::to_string(pid); }

std::string text_of(LiveProblem problem, int pid) {
  switch (problem) {
    case LiveProblem::kNoSuchProcess:
      return "there is no process " + std::to_string(pid) +
             "; superpipe budget lists those that run under superpipe";
    case LiveProblem::kOtherUser:
      return named(pid) + " is another user's: only that user and root may change its budget";
    case LiveProblem::kNotManaged:
      return named(pid) +
             " has no buffers under superpipe: it was not started with superpipe run, or has not "
             "allocated device memory yet";
    case LiveProblem::kOtherVersion:
      return named(pid) +
             " runs under another version of superpipe; use the command of that version";
    case LiveProblem::kUnreadable:
      break;
  }
  return named(pid) + " cannot be looked at: its segment in " + kLiveFolder + " cannot be opened";
}

std::string text_of(BudgetAnswer answer, int pid) {
  switch (answer) {
    case BudgetAnswer::kChanged:
      return {};
    case BudgetAnswer::kCountsLayers:
      return named(pid) +
             " keeps the number of layers that it was started with (--k); start it with --gpu-mem "
             "to give it budgets";
    case BudgetAnswer::kNothingMoves:
      return named(pid) +
             " moves nothing (policy resident), so it has no budget; start it with superpipe run";
    case BudgetAnswer::kTooSmall:
      return "that leaves " + named(pid) +
             " no page beside its context, pass-through memory and headroom; allow more";
    case BudgetAnswer::kHostMemoryShort:
      return named(pid) +
             " has too little host memory for what would leave the device; its budget stays as it "
             "was (--host-mem, memory available, cgroup limit)";
    case BudgetAnswer::kEnded:
      return named(pid) + " is just giving its buffers up";
  }
  return named(pid) + " gave an answer that this version does not know";
}

std::string text_of(LiveProcess::Outcome outcome, int pid) {
  switch (outcome) {
    case LiveProcess::Outcome::kAnswered:
      return {};
    case LiveProcess::Outcome::kTimedOut:
      return named(pid) +
             " did not answer in time; it may still do what was asked (is it stopped? --timeout "
             "waits longer)";
    case LiveProcess::Outcome::kBusy:
      return "another superpipe budget is asking " + named(pid) + " for something; try again";
    case LiveProcess::Outcome::kEnded:
      break;
  }
  return named(pid) + " has ended";
}

std::string budget_text(Bytes budget) {
  return budget > Bytes{} ? format_bytes(budget) : std::string("none");
}

std::string pages_text(const LiveFigures& figures) {
  return "pages " + format_bytes(figures.pages) + " of " + format_bytes(figures.limit);
}

// Brings the figures up to date, where the process has a thread for that.
LiveProcess::Outcome refresh(LiveProcess& process, milliseconds limit) {
  if (process.description().refusal != BudgetAnswer::kChanged) {
    return LiveProcess::Outcome::kAnswered;
  }
  BudgetAnswer answer{};
  return process.request(std::nullopt, limit, answer);
}

int list_processes() {
  std::vector<LiveEntry> entries = list_live_processes();
  if (entries.empty()) {
    std::cout << "no process of yours runs under superpipe\n";
    return kSuccess;
  }
  std::cout << "    PID  PROGRAM          POLICY               BUDGET       PAGES\n";
  for (LiveEntry& entry : entries) {
    std::cout << std::setw(7) << entry.pid << "  " << std::left << std::setw(17)
              << process_name(entry.pid);
    if (const auto* const problem = std::get_if<LiveProblem>(&entry.process)) {
      const bool is_other = *problem == LiveProblem::kOtherVersion;
      std::cout << (is_other ? "(another version of superpipe)" : "(cannot be looked at)");
    } else {
      auto& process = std::get<LiveProcess>(entry.process);
      (void)refresh(process, kFiguresTimeout);
      const LiveDescription description = process.description();
      const LiveFigures figures = process.figures();
      const bool moves = description.refusal == BudgetAnswer::kChanged;
      std::cout << std::setw(21) << name_of(description.policy) << std::setw(13)
                << budget_text(figures.budget) << (moves ? format_bytes(figures.pages) : "-");
    }
    std::cout << std::right << '\n';
  }
  return kSuccess;
}

int say_budget(LiveProcess& process, milliseconds timeout) {
  const int pid = process.pid();
  const BudgetAnswer refusal = process.description().refusal;
  if (refusal != BudgetAnswer::kChanged) {
    std::cout << text_of(refusal, pid) << '\n';
    return kSuccess;
  }
  const auto outcome = refresh(process, timeout);
  if (outcome != LiveProcess::Outcome::kAnswered) return fail_budget(text_of(outcome, pid));
  const LiveFigures figures = process.figures();
  std::cout << named(pid) << ": budget " << format_bytes(figures.budget) << ", "
            << pages_text(figures) << '\n';
  return kSuccess;
}

// Waits until the pages fit the limit. @return the figures of then, or of the deadline.
LiveFigures watch_pages(const LiveProcess& process, Clock::time_point deadline) {
  auto said = Clock::now();
  for (;;) {
    const LiveFigures figures = process.figures();
    const auto now = Clock::now();
    if (figures.pages <= figures.limit || now >= deadline || !process.is_running()) return figures;
    if (now - said >= kProgress) {
      said = now;
      std::cerr << "superpipe budget: the budget is in force; " << pages_text(figures) << '\n';
    }
    ::usleep(static_cast<useconds_t>(std::chrono::microseconds(kLook).count()));
  }
}

int change_budget(LiveProcess& process, const SizeSpec& size, milliseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  const int pid = process.pid();
  const LiveDescription description = process.description();
  if (description.refusal != BudgetAnswer::kChanged) {
    return fail_budget(text_of(description.refusal, pid));
  }
  const Bytes before = process.figures().budget;
  BudgetAnswer answer{};
  const auto outcome = process.request(size.resolve(description.device_total), timeout, answer);
  if (outcome != LiveProcess::Outcome::kAnswered) return fail_budget(text_of(outcome, pid));
  if (answer != BudgetAnswer::kChanged) return fail_budget(text_of(answer, pid));
  const LiveFigures figures = watch_pages(process, deadline);
  std::cout << named(pid) << ": budget " << format_bytes(before) << " -> "
            << format_bytes(figures.budget) << ", " << pages_text(figures) << '\n';
  if (figures.pages <= figures.limit) return kSuccess;
  if (!process.is_running()) return fail_budget(named(pid) + " has ended");
  return fail_budget("the budget is in force, but buffers of " + named(pid) +
                     " are still in use, or are pinned; its pages come down as they can go");
}

}  // namespace

std::optional<std::string> problem_with(const BudgetOptions& options) {
  if (!options.pid.empty() && !pid_in(options.pid)) {
    return "'" + options.pid + "' is no process: it takes a process's id, and a size";
  }
  const auto size = parse_size(options.size);
  if (!options.size.empty() && (!size || size->resolve(Bytes{~std::uint64_t{0}}) == Bytes{})) {
    return "'" + options.size +
           "' is no size: it takes bytes, or K, M, G, T as powers of 1024, or a percentage of the "
           "device, above 0";
  }
  if (!timeout_in(options.timeout)) {
    return "--timeout " + options.timeout + ": it takes seconds, such as 10 (0.001 to 86400)";
  }
  return std::nullopt;
}

int budget_command(const BudgetOptions& options) {
  if (options.pid.empty()) return list_processes();
  const int pid = *pid_in(options.pid);
  auto opened = LiveProcess::open(pid);
  if (const auto* const problem = std::get_if<LiveProblem>(&opened)) {
    return fail_budget(text_of(*problem, pid));
  }
  auto& process = std::get<LiveProcess>(opened);
  const milliseconds timeout = *timeout_in(options.timeout);
  if (options.size.empty()) return say_budget(process, timeout);
  return change_budget(process, *parse_size(options.size), timeout);
}

}  // namespace superpipe::cli
