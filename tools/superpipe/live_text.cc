#include "tools/superpipe/live_text.h"

#include <charconv>
#include <fstream>

#include "settings/settings.h"
#include "tools/superpipe/plain_text.h"

namespace superpipe::cli {
namespace {

std::string named(int pid) { return "process " + std::to_string(pid); }

}  // namespace

std::optional<int> pid_in(const std::string& text) {
  int pid = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), pid);
  const bool whole = read.ec == std::errc() && read.ptr == text.data() + text.size();
  return whole && pid > 0 ? std::optional(pid) : std::nullopt;
}

std::string process_name(int pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/comm");
  std::string name;
  std::getline(file, name);
  return plain_text(std::move(name));
}

std::string in_brackets(LiveProblem problem) {
  switch (problem) {
    case LiveProblem::kOtherVersion:
      return "(another version of superpipe)";
    case LiveProblem::kOtherNamespace:
      return "(in another container)";
    case LiveProblem::kDamaged:
      return "(damaged segment)";
    default:
      return "(cannot be looked at)";
  }
}

std::string no_processes(const std::string& folder) {
  return "no process of yours runs under superpipe (" + folder + " has none)";
}

std::string text_of(LiveProblem problem, int pid, const std::string& folder) {
  switch (problem) {
    case LiveProblem::kNoSuchProcess:
      return "there is no process " + std::to_string(pid) +
             "; superpipe budget lists those that run under superpipe";
    case LiveProblem::kOtherUser:
      return named(pid) +
             " is another user's: only that user and root may look at it or change its budget";
    case LiveProblem::kNotManaged:
      return named(pid) +
             " has no buffers under superpipe: it was not started with superpipe run, has not "
             "allocated device memory yet, or is not to be found in " +
             folder + " (" + variable_of(SettingId::kSharedFolder) + ")";
    case LiveProblem::kOtherVersion:
      return named(pid) +
             " runs under another version of superpipe; use the command of that version";
    case LiveProblem::kOtherNamespace:
      return named(pid) + " is in a container that shares " + folder +
             "; use superpipe in that container";
    case LiveProblem::kDamaged:
      return named(pid) + ": what lies in " + folder +
             " under its name is damaged, or was written by another program; remove it, and start "
             "the process again";
    case LiveProblem::kUnreadable:
      break;
  }
  return named(pid) + " cannot be looked at: its segment in " + folder + " cannot be opened";
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

}  // namespace superpipe::cli
