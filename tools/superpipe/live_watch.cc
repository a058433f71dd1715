#include "tools/superpipe/live_watch.h"

#include <algorithm>
#include <variant>

#include "tools/superpipe/live_text.h"

namespace superpipe::cli {

namespace {

/// After so much silence a process counts as not answering: a busy machine may take a while.
constexpr std::chrono::milliseconds kSilence{1000};

}  // namespace

/// A process that was asked in this look.
struct LiveWatch::Asked {
  LiveProcess* process;
  ProcessLook* look;
  std::optional<std::uint32_t> sequence;
  bool is_waited_for;
};

std::vector<LiveEntry> LiveWatch::entries() const {
  if (!pid_) return list_live_processes(folder_);
  auto opened = LiveProcess::open(*pid_, folder_);
  const auto* const problem = std::get_if<LiveProblem>(&opened);
  const bool is_gone = problem != nullptr && (*problem == LiveProblem::kNoSuchProcess ||
                                              *problem == LiveProblem::kNotManaged);
  std::vector<LiveEntry> entries;
  if (!is_gone) entries.push_back({*pid_, std::move(opened)});
  return entries;
}

std::vector<ProcessLook> LiveWatch::look(std::chrono::milliseconds patience) {
  const auto deadline = Clock::now() + patience;
  std::vector<LiveEntry> found = entries();
  std::vector<ProcessLook> looks(found.size());
  std::vector<Asked> all_asked;
  std::map<int, Memory> memories;
  for (std::size_t i = 0; i < found.size(); ++i) {
    ProcessLook& look = looks[i];
    look.pid = found[i].pid;
    look.program = process_name(look.pid);
    if (const auto* const problem = std::get_if<LiveProblem>(&found[i].process)) {
      look.problem = *problem;
      continue;
    }
    auto& process = std::get<LiveProcess>(found[i].process);
    look.start_time = process.start_time();
    look.description = process.description();
    Memory& memory = memories[look.pid];
    const auto known = memories_.find(look.pid);
    const bool is_known = known != memories_.end() && known->second.start_time == look.start_time;
    memory = is_known ? known->second : Memory{look.start_time, 0, std::nullopt};
    const bool is_waited_for = !memory.silent_since;
    if (is_waited_for) memory.silent_since = Clock::now();
    all_asked.push_back({&process, &look, process.ask(), is_waited_for});
  }
  memories_ = std::move(memories);
  for (Asked& asked : all_asked) {
    while (asked.sequence && asked.is_waited_for && !asked.process->has_answered(*asked.sequence)) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
      if (left.count() <= 0) break;
      asked.process->wait_for_answer(*asked.sequence, left);
    }
  }
  for (Asked& asked : all_asked) finish(asked);
  return looks;
}

// Takes the figures, and finds out whether the process answers. One that was not waited for may
// have answered what it was asked in an earlier look.
void LiveWatch::finish(Asked& asked) {
  ProcessLook& look = *asked.look;
  const auto figures = asked.process->figures();
  if (!asked.sequence || !figures) {
    look.problem = LiveProblem::kDamaged;
    memories_.erase(look.pid);
    return;
  }
  look.figures = *figures;
  Memory& memory = memories_[look.pid];
  const bool is_fresh = figures->taken_ns != memory.taken_ns && memory.taken_ns != 0;
  if (asked.process->has_answered(*asked.sequence) || is_fresh) memory.silent_since.reset();
  memory.taken_ns = figures->taken_ns;
  look.answers = !memory.silent_since || Clock::now() - *memory.silent_since < kSilence;
}

}  // namespace superpipe::cli
