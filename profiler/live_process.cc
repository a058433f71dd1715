#include "profiler/live_process.h"

#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <thread>
#include <type_traits>
#include <utility>

#include "profiler/process_identity.h"

namespace superpipe {

std::variant<LiveProcess, LiveProblem> LiveProcess::open(int pid, const std::string& folder) {
  struct stat process {};
  if (pid <= 0 || ::stat(("/proc/" + std::to_string(pid)).c_str(), &process) != 0) {
    return LiveProblem::kNoSuchProcess;
  }
  const uid_t self = ::geteuid();
  // The files of a process that may not be traced seem to be root's.
  struct stat own {};
  const bool is_own = ::stat(live_segment_path(self, pid, folder).c_str(), &own) == 0;
  const uid_t user = is_own ? self : process.st_uid;
  if (user != self && self != 0) return LiveProblem::kOtherUser;
  auto opened = open_segment(live_segment_path(user, pid, folder), user);
  if (const auto* const problem = std::get_if<LiveProblem>(&opened)) return *problem;
  auto& mapping = std::get<LiveMapping>(opened);
  const auto image = image_of(mapping.descriptor());
  if (!image) return LiveProblem::kDamaged;
  if (const auto problem = problem_in(*image, pid)) return *problem;
  const LiveDescription description{static_cast<PolicyKind>(image->policy),
                                    Bytes{image->device_total},
                                    static_cast<BudgetAnswer>(image->refusal)};
  return LiveProcess(std::move(mapping), pid, image->start_time, description);
}

std::optional<LiveFigures> LiveProcess::figures() const {
  // A process writes them within a microsecond, unless it is interrupted. One that died while it
  // did, or lies, leaves them odd for ever: after 10 ms they are taken as they stand.
  constexpr int kQuickAttempts = 100;
  constexpr int kMostAttempts = 200;
  std::optional<LiveLayout> image;
  for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
    if (attempt >= kQuickAttempts) std::this_thread::sleep_for(std::chrono::microseconds{100});
    const auto before = figures_version_of(mapping_.descriptor());
    image = image_of(mapping_.descriptor());
    if (!image || (before % 2 == 0 && before == figures_version_of(mapping_.descriptor()))) break;
  }
  if (!image || !has_possible_figures(*image)) return std::nullopt;
  LiveFigures figures;
  for_each_figure(*image, figures, [](const auto& field, auto& figure) {
    figure = static_cast<std::remove_reference_t<decltype(figure)>>(field);
  });
  return figures;
}

bool LiveProcess::is_running() const { return start_time_of(pid_) == std::optional(start_time_); }

std::optional<std::uint32_t> LiveProcess::ask() {
  if (!image_of(mapping_.descriptor()) || !count_up_and_wake(&mapping_->asked)) return std::nullopt;
  // Another command may have asked at the same moment: an answer to that one is to this one, too.
  const auto image = image_of(mapping_.descriptor());
  return image ? std::optional(image->asked) : std::nullopt;
}

bool LiveProcess::has_answered(std::uint32_t asked) const {
  const auto image = image_of(mapping_.descriptor());
  return image && is_settled(image->answered, asked);
}

void LiveProcess::wait_for_answer(std::uint32_t asked, std::chrono::milliseconds limit) const {
  const auto image = image_of(mapping_.descriptor());
  if (image && !is_settled(image->answered, asked)) {
    wait_on(&mapping_->answered, image->answered, limit);
  }
}

LiveProcess::Outcome LiveProcess::ask_budget(Bytes budget) {
  const int file = mapping_.descriptor();
  if (::flock(file, LOCK_EX | LOCK_NB) != 0) return Outcome::kBusy;
  const auto image = image_of(file);
  const std::uint64_t bytes = budget.count();
  const std::uint32_t sequence = image ? image->budget_asked + 1 : 0;
  const bool is_written =
      image && ::pwrite(file, &bytes, sizeof bytes, offsetof(LiveLayout, requested_budget)) > 0 &&
      ::pwrite(file, &sequence, sizeof sequence, offsetof(LiveLayout, budget_asked)) > 0;
  if (!is_written || !count_up_and_wake(&mapping_->asked)) {
    (void)::flock(file, LOCK_UN);
    return Outcome::kEnded;
  }
  budget_asked_ = sequence;
  return Outcome::kAnswered;
}

std::optional<BudgetAnswer> LiveProcess::budget_answer() {
  if (!budget_asked_) return std::nullopt;
  const auto image = image_of(mapping_.descriptor());
  if (!image || !is_settled(image->budget_answered, *budget_asked_)) return std::nullopt;
  forget_budget();
  return static_cast<BudgetAnswer>(image->answer);
}

void LiveProcess::forget_budget() {
  if (budget_asked_) (void)::flock(mapping_.descriptor(), LOCK_UN);
  budget_asked_.reset();
}

LiveProcess::Outcome LiveProcess::request(std::optional<Bytes> budget,
                                          std::chrono::milliseconds limit, BudgetAnswer& answer) {
  using Clock = std::chrono::steady_clock;
  const auto deadline = Clock::now() + limit;
  constexpr std::chrono::milliseconds kSlice{100};  // after which a dead process is noticed
  std::optional<std::uint32_t> figures_asked;
  if (budget) {
    Outcome asked{};
    while ((asked = ask_budget(*budget)) == Outcome::kBusy) {
      if (Clock::now() >= deadline) return Outcome::kBusy;
      ::usleep(1000);
    }
    if (asked != Outcome::kAnswered) return asked;
  } else if (!(figures_asked = ask())) {
    return Outcome::kEnded;
  }
  for (;;) {
    const auto image = image_of(mapping_.descriptor());
    if (!image) break;
    if (figures_asked && is_settled(image->answered, *figures_asked)) return Outcome::kAnswered;
    if (const auto given = budget_answer()) {
      answer = *given;
      return Outcome::kAnswered;
    }
    if (Clock::now() >= deadline || !is_running()) break;
    wait_on(&mapping_->answered, image->answered, kSlice);
  }
  forget_budget();
  return is_running() ? Outcome::kTimedOut : Outcome::kEnded;
}

std::vector<LiveEntry> list_live_processes(const std::string& folder) {
  const uid_t user = ::geteuid();
  std::vector<LiveEntry> entries;
  for (const int pid : pids_in(folder, user)) {
    if (sweep_segment(folder, user, pid)) continue;
    auto process = LiveProcess::open(pid, folder);
    const auto* const problem = std::get_if<LiveProblem>(&process);
    const bool has_no_segment =  // it has just ended, or is just beginning
        problem != nullptr &&
        (*problem == LiveProblem::kNotManaged || *problem == LiveProblem::kNoSuchProcess);
    if (has_no_segment) continue;
    entries.push_back({pid, std::move(process)});
  }
  return entries;
}

}  // namespace superpipe
