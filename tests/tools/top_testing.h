// What the tests of superpipe top have in common.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "policy/units.h"
#include "tools/superpipe/live_watch.h"
#include "tools/superpipe/top_model.h"
#include "tools/superpipe/top_screen.h"

namespace superpipe::cli {

inline constexpr std::uint64_t kSecond = 1'000'000'000;

/// A look at process `pid`, `seconds` after the clock began.
ProcessLook look_at(int pid, std::uint64_t seconds, Bytes pages = 3_MiB);

/// A look at a process whose figures could not be had.
ProcessLook problem_at(int pid, LiveProblem problem);

/// The processes of a model, in its order.
std::vector<int> pids_of(const TopModel& model);

/// The lines of a screen as one text.
std::string joined(const std::vector<ScreenLine>& lines);

/// Expects `text` to be in Prometheus' text format: all lines are comments or samples, and each
/// name is described once, before its first sample.
void expect_is_prometheus(const std::string& text);

}  // namespace superpipe::cli
