// The answers of `superpipe plan --json`.
#pragma once

#include <nlohmann/json.hpp>
#include <span>

#include "tools/superpipe/planner/assumed_link.h"
#include "tools/superpipe/planner/planner.h"
#include "tools/superpipe/planner/traced_program.h"

namespace superpipe::cli {

/// What the program is and needs, how far predictions over `link` can be trusted, and `rows`, as
/// "plans".
[[nodiscard]] nlohmann::json plan_json(const TracedProgram& program, const Planner& planner,
                                       const AssumedLink& link, std::span<const Prediction> rows);

}  // namespace superpipe::cli
