// A picture of how pass time depends on the budget.
#pragma once

#include <span>
#include <string>

#include "tools/superpipe/planner/planner.h"

namespace superpipe::cli {

/// An SVG of 720 by 440: the time of a pass over the memory of the device, a line for each policy,
/// the windowed bound dashed, and rings around what no other plan beats in both. Plans that do not
/// run, and those of a k, are left out. `resident_ms`: a pass with all on the device.
[[nodiscard]] std::string trade_off_svg(std::span<const Prediction> rows, double resident_ms);

}  // namespace superpipe::cli
