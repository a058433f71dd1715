// What the commands that look at running processes say of them.
#pragma once

#include <optional>
#include <string>

#include "profiler/live_process.h"

namespace superpipe::cli {

/// The id of a process that `text` is; nullopt if it is none.
[[nodiscard]] std::optional<int> pid_in(const std::string& text);

/// The name of the program that a process runs, as plain_text(), of at most 15 characters; empty if
/// there is no such process.
[[nodiscard]] std::string process_name(int pid);

/// Why a process cannot be looked at, in a table's row.
[[nodiscard]] std::string in_brackets(LiveProblem problem);
/// The same as a sentence that says what to do.
/// `folder`: where the process's segment should lie.
[[nodiscard]] std::string text_of(LiveProblem problem, int pid, const std::string& folder);
/// That `folder` has no process to look at, in one line.
[[nodiscard]] std::string no_processes(const std::string& folder);
/// Why a budget was not given; empty for kChanged.
[[nodiscard]] std::string text_of(BudgetAnswer answer, int pid);
/// Why a request has no answer; empty for kAnswered.
[[nodiscard]] std::string text_of(LiveProcess::Outcome outcome, int pid);

}  // namespace superpipe::cli
