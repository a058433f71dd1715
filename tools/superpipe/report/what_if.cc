#include "tools/superpipe/report/what_if.h"

#include <algorithm>
#include <cstdint>

namespace superpipe::cli {

std::vector<Bytes> what_if_budgets(Bytes needed, Bytes least) {
  const Bytes unit = needed > 8_GiB ? 64_MiB : needed > 256_MiB ? 8_MiB : 1_MiB;
  std::vector<Bytes> budgets = {round_up(least, unit)};
  for (std::uint64_t share = 10; share <= 100; share += 10) {
    const Bytes budget = round_up(Bytes{needed.count() / 100 * share}, unit);
    if (budget > budgets.back()) budgets.push_back(budget);
  }
  // Rounding of a hundredth may have left out a few bytes of all.
  if (budgets.back() < needed) budgets.push_back(round_up(needed, unit));
  return budgets;
}

WhatIf predict_what_if(const TracedProgram& program, const Planner& planner,
                       const std::string& link, std::chrono::seconds limit,
                       const std::function<void(std::size_t done, std::size_t all)>& progress) {
  WhatIf answer;
  answer.link = link;
  answer.needed = planner.needed();
  answer.least = planner.least();
  answer.resident_pass_ms = planner.resident_pass_ms();
  answer.measured_share = program.measured_share();
  answer.passes = planner.passes().size();
  const auto began = std::chrono::steady_clock::now();
  const std::vector<Bytes> budgets = what_if_budgets(answer.needed, answer.least);
  for (std::size_t i = budgets.size(); i-- > 0;) {
    if (!answer.rows.empty() && std::chrono::steady_clock::now() - began > limit) {
      answer.skipped = i + 1;
      break;
    }
    progress(budgets.size() - i, budgets.size());
    answer.rows.push_back(planner.predict({PolicyKind::kAuto, budgets[i], {}, {}}));
  }
  std::reverse(answer.rows.begin(), answer.rows.end());
  answer.accuracy = planner.accuracy();
  return answer;
}

}  // namespace superpipe::cli
