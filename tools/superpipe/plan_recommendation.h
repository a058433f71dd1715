// Which of several predictions a user should take, in words and as the file of a plan.
#pragma once

#include <span>
#include <string>

#include "tools/superpipe/exit_code.h"
#include "tools/superpipe/planner/planner.h"

namespace superpipe::cli {

/// "12.3 ms".
[[nodiscard]] std::string milliseconds_text(double ms);

/// Names the smallest budget in which a pass takes at most a tenth longer than with all on the
/// device, which takes `resident_ms`; empty if there is none among `rows`.
[[nodiscard]] std::string recommendation(std::span<const Prediction> rows, double resident_ms);

/// What came of writing a plan.
struct WrittenPlan {
  int code = kSuccess;  ///< kProblemFound: there is no plan; kBadUsage: the file cannot be written
  std::string text{};   ///< what is in the file, in lines for the user; else what is wrong, in one
};

/// Writes a plan to the file at `path`, or to standard output where that is "-": for the budget
/// that is recommended, else for the one of `rows` with the shortest passes. Shows progress.
[[nodiscard]] WrittenPlan write_best_plan(const std::string& path, std::span<const Prediction> rows,
                                          const Planner& planner);

}  // namespace superpipe::cli
