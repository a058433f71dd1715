#include "tools/superpipe/budget_command.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <iomanip>
#include <iostream>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "policy/budget.h"
#include "policy/policy_engine.h"
#include "profiler/live_process.h"
#include "profiler/shared_folder.h"
#include "tools/superpipe/exit_code.h"
#include "tools/superpipe/live_text.h"

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

std::string budget_text(Bytes budget) {
  return budget > Bytes{} ? format_bytes(budget) : std::string("none");
}

std::string pages_text(const LiveFigures& figures) {
  return "pages " + format_bytes(figures.pages) + " of " + format_bytes(figures.limit);
}

// Brings the figures up to date.
LiveProcess::Outcome refresh(LiveProcess& process, milliseconds limit) {
  BudgetAnswer answer{};
  return process.request(std::nullopt, limit, answer);
}

// As far as they can be: who writes into its own segment what cannot be is shown as having nothing.
LiveFigures figures_of(const LiveProcess& process) {
  return process.figures().value_or(LiveFigures{});
}

int list_processes(const std::string& folder) {
  std::vector<LiveEntry> entries = list_live_processes(folder);
  if (entries.empty()) {
    std::cout << no_processes(folder) << '\n';
    return kSuccess;
  }
  std::cout << "    PID  PROGRAM          POLICY               BUDGET       PAGES\n";
  for (LiveEntry& entry : entries) {
    std::cout << std::setw(7) << entry.pid << "  " << std::left << std::setw(17)
              << process_name(entry.pid);
    if (const auto* const problem = std::get_if<LiveProblem>(&entry.process)) {
      std::cout << in_brackets(*problem);
    } else {
      auto& process = std::get<LiveProcess>(entry.process);
      (void)refresh(process, kFiguresTimeout);
      const LiveDescription description = process.description();
      const LiveFigures figures = figures_of(process);
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
  const LiveFigures figures = figures_of(process);
  std::cout << "process " << pid << ": budget " << format_bytes(figures.budget) << ", "
            << pages_text(figures) << '\n';
  return kSuccess;
}

// Waits until the pages fit the limit. @return the figures of then, or of the deadline.
LiveFigures watch_pages(const LiveProcess& process, Clock::time_point deadline) {
  auto said = Clock::now();
  for (;;) {
    const LiveFigures figures = figures_of(process);
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
  const Bytes before = figures_of(process).budget;
  BudgetAnswer answer{};
  const auto outcome = process.request(size.resolve(description.device_total), timeout, answer);
  if (outcome != LiveProcess::Outcome::kAnswered) return fail_budget(text_of(outcome, pid));
  if (answer != BudgetAnswer::kChanged) return fail_budget(text_of(answer, pid));
  const LiveFigures figures = watch_pages(process, deadline);
  std::cout << "process " << pid << ": budget " << format_bytes(before) << " -> "
            << format_bytes(figures.budget) << ", " << pages_text(figures) << '\n';
  if (figures.pages <= figures.limit) return kSuccess;
  if (!process.is_running()) return fail_budget("process " + std::to_string(pid) + " has ended");
  return fail_budget("the budget is in force, but buffers of process " + std::to_string(pid) +
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

int budget_command(const BudgetOptions& options, const std::string& folder) {
  if (const auto problem = problem_with_shared_folder(folder, FolderUse::kLook); !problem.empty()) {
    return fail_budget(problem + advice_on_shared_folder());
  }
  if (options.pid.empty()) return list_processes(folder);
  const int pid = *pid_in(options.pid);
  auto opened = LiveProcess::open(pid, folder);
  if (const auto* const problem = std::get_if<LiveProblem>(&opened)) {
    return fail_budget(text_of(*problem, pid, folder));
  }
  auto& process = std::get<LiveProcess>(opened);
  const milliseconds timeout = *timeout_in(options.timeout);
  if (options.size.empty()) return say_budget(process, timeout);
  return change_budget(process, *parse_size(options.size), timeout);
}

}  // namespace superpipe::cli
