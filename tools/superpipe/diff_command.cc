#include "tools/superpipe/diff_command.h"

#include <iostream>
#include <utility>
#include <variant>

#include "tools/superpipe/diff/compared_run.h"
#include "tools/superpipe/diff/run_comparison.h"
#include "tools/superpipe/exit_code.h"
#include "tools/superpipe/plain_text.h"
#include "tools/superpipe/progress_line.h"
#include "tools/superpipe/trace_files.h"

namespace superpipe::cli {
namespace {

int fail_diff(const std::string& line) {
  std::cerr << "superpipe diff: " << plain_text(line) << '\n';
  return kBadUsage;
}

}  // namespace

std::optional<std::string> problem_with(const DiffOptions& options) {
  if (options.files.size() != 2) {
    return "it compares two runs, and " + std::to_string(options.files.size()) +
           " are named: superpipe diff BEFORE AFTER, each a trace or statistics";
  }
  if (!options.fail_above) return std::nullopt;
  if (options.fail_above->empty()) {
    // A gate must not be off because a variable of a shell was not set.
    return "--fail-above is given without a limit: give one, such as 5%, or leave it out";
  }
  const Gate gate = parse_gate(*options.fail_above);
  if (gate.problem.empty()) return std::nullopt;
  return "--fail-above " + *options.fail_above + ": " + gate.problem;
}

int diff_command(const DiffOptions& options) {
  const std::vector<GateLimit> limits =
      options.fail_above ? parse_gate(*options.fail_above).limits : std::vector<GateLimit>{};
  ProgressLine progress("diff");
  std::vector<ComparedRun> runs;
  for (const std::string& file : options.files) {
    progress.begin("reading " + file);
    auto read = read_compared_run(file);
    progress.clear();
    if (const auto* const problem = std::get_if<FileProblem>(&read)) return fail_diff(*problem);
    runs.push_back(std::move(std::get<ComparedRun>(read)));
    if (const std::string others = other_trace_files(file, options.files); !others.empty()) {
      std::cerr << "superpipe diff: note: the run of " << plain_text(file)
                << " has other files too, each to be compared by itself: " << plain_text(others)
                << '\n';
    }
  }
  auto compared = compare_runs(std::move(runs[0]), std::move(runs[1]));
  if (const auto* const problem = std::get_if<std::string>(&compared)) return fail_diff(*problem);
  const auto& comparison = std::get<RunComparison>(compared);
  std::cout << (options.json ? comparison_json(comparison, limits)
                             : comparison_text(comparison, limits))
            << std::flush;
  if (!std::cout) return fail_diff("cannot write to standard output");
  const GateVerdict verdict = judge(comparison, limits);
  if (!verdict.exceeded.empty()) return kProblemFound;
  if (verdict.unknown.empty()) return kSuccess;
  std::string reasons;
  for (const JudgedLimit& limit : verdict.unknown) {
    reasons.append(reasons.empty() ? "" : "; ").append(kind_of(limit.quantity).name);
    reasons.append(": ").append(limit.reason);
  }
  return fail_diff("--fail-above cannot be judged: " + reasons);
}

}  // namespace superpipe::cli
