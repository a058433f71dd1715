#include "tools/superpipe/plan_recommendation.h"

#include <iomanip>
#include <sstream>
#include <utility>
#include <variant>

#include "policy/budget.h"
#include "policy/policy_engine.h"
#include "profiler/plan_file.h"
#include "tools/superpipe/export_sink.h"
#include "tools/superpipe/progress_line.h"

namespace superpipe::cli {
namespace {

// How much longer than with all on the device a pass may take in the budget that is recommended.
constexpr double kGoodFactor = 1.1;

// A first pass with a plan that takes more than this part of one without gains nothing by it.
constexpr double kShorter = 0.99;

std::string mebibytes(Bytes size) {
  return std::to_string((size.count() + (1 << 20) - 1) >> 20) + "M";
}

// The smallest budget in which a pass takes hardly longer than with all on the device; null: none.
const Prediction* recommended(std::span<const Prediction> rows, double resident_ms) {
  const Prediction* best = nullptr;
  for (const Prediction& row : rows) {
    if (!row.problem.empty() || row.question.k || row.question.policy != PolicyKind::kAuto)
      continue;
    if (row.pass_ms > kGoodFactor * resident_ms) continue;
    if (best == nullptr || row.question.gpu_mem < best->question.gpu_mem) best = &row;
  }
  return best;
}

// What is recommended, else the one with the shortest passes. Null: none runs.
const Prediction* best_of(std::span<const Prediction> rows, double resident_ms) {
  const Prediction* best = recommended(rows, resident_ms);
  if (best != nullptr) return best;
  for (const Prediction& row : rows) {
    if (!row.problem.empty() || row.question.policy == PolicyKind::kResident) continue;
    if (best == nullptr || row.pass_ms < best->pass_ms) best = &row;
  }
  return best;
}

// What a user should know of the plan in the file at `path`.
std::string text_about(const Plan& plan, const std::string& path, double first_pass_ms) {
  const std::string budget = plan.k ? "k=" + std::to_string(*plan.k) : format_bytes(plan.gpu_mem);
  std::string text = "\nThe plan for " + budget + " is in " + path + ": ";
  if (plan.recorded->launches.empty()) {
    text += "no order of launches, because " + (plan.policy == PolicyKind::kAuto
                                                    ? std::string("the program repeats nothing")
                                                    : "only the policy auto foresees one");
  } else {
    const bool is_shorter = plan.first_pass_ms < kShorter * first_pass_ms;
    text += std::to_string(plan.recorded->launches.size()) +
            " launches up to the end of the first pass, which takes " +
            milliseconds_text(plan.first_pass_ms) + " with it and " +
            milliseconds_text(first_pass_ms) + " without" +
            (is_shorter ? "" : ": here it gains nothing to know their order ahead");
  }
  return text + ".\n  superpipe run --plan " + path + " -- COMMAND\n";
}

}  // namespace

std::string milliseconds_text(double ms) {
  std::ostringstream text;
  text << std::setprecision(ms < 100 ? 3 : 4) << ms << " ms";
  return text.str();
}

std::string recommendation(std::span<const Prediction> rows, double resident_ms) {
  const Prediction* const best = recommended(rows, resident_ms);
  if (best == nullptr) return {};
  return "\nThe smallest of these budgets in which a pass takes at most a tenth longer than with "
         "all on the device:\n  superpipe run --gpu-mem " +
         mebibytes(best->question.gpu_mem) + " -- COMMAND\n";
}

WrittenPlan write_best_plan(const std::string& path, std::span<const Prediction> rows,
                            const Planner& planner) {
  const Prediction* const best = best_of(rows, planner.resident_pass_ms());
  if (best == nullptr) return {kProblemFound, "there is no plan to write: nothing of it runs"};
  const auto found = [&] {
    ProgressLine progress("plan");
    progress.begin("running the first pass again");
    return planner.plan_for(best->question);
  }();
  if (const auto* const problem = std::get_if<std::string>(&found)) {
    return {kProblemFound, "there is no plan to write: " + *problem};
  }
  const Plan& plan = std::get<Plan>(found);
  std::string refusal;
  const auto file = ExportFile::open(path, refusal);
  if (file == nullptr) return {kBadUsage, std::move(refusal)};
  file->write(text_of(plan));
  if (auto problem = file->finish()) return {kBadUsage, *std::move(problem)};
  return {kSuccess, text_about(plan, path, best->first_pass_ms)};
}

}  // namespace superpipe::cli
