// What a report's slider shows: how the traced program would do in other budgets.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "policy/units.h"
#include "tools/superpipe/planner/planner.h"

namespace superpipe::cli {

/// Predictions of policy auto, from the smallest budget to the largest. Times in milliseconds.
struct WhatIf {
  std::string link;  ///< AssumedLink::text()
  std::vector<Prediction> rows;
  std::size_t skipped = 0;  ///< budgets that there was no time for
  Bytes needed{};           ///< to have everything on the device
  Bytes least{};            ///< with which every launch finds room
  double resident_pass_ms = 0;
  double measured_share = 0;  ///< of the compute time, in [0, 1]
  std::size_t passes = 0;     ///< that are replayed
  std::optional<PlanAccuracy> accuracy{};
};

/// Budgets of 10 to 100 % of what `planner` says is needed, in steps of ten, and the least that
/// runs: in ascending order, each at least that. Pure.
[[nodiscard]] std::vector<Bytes> what_if_budgets(Bytes needed, Bytes least);

/// Asks `planner` about what_if_budgets(), the largest first; none any more once `limit` has
/// passed, but always the first. `progress` is told how many of how many are asked.
[[nodiscard]] WhatIf predict_what_if(
    const TracedProgram& program, const Planner& planner, const std::string& link,
    std::chrono::seconds limit,
    const std::function<void(std::size_t done, std::size_t all)>& progress);

}  // namespace superpipe::cli
