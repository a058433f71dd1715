// Plans: what `superpipe plan` found out about a program, as a file that a run follows
// (docs/plan-format.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "policy/policy_engine.h"
#include "policy/recorded_run.h"
#include "policy/units.h"
#include "settings/setting_values.h"

namespace superpipe {

/// How a program shall be run, and what it does.
struct Plan {
  std::string command{};  ///< that was traced
  PolicyKind policy = PolicyKind::kAuto;
  Bytes gpu_mem;  ///< all that the process may take of the device, as --gpu-mem; 0: `k` is set
  std::optional<int> k{};
  std::optional<int> k_prime{};
  /// What was predicted, in milliseconds.
  double pass_ms = 0;
  double first_pass_ms = 0;
  /// What the program does up to the end of its first pass; it may have no launches, if the policy
  /// does not foresee any. Never null.
  std::shared_ptr<const RecordedRun> recorded = std::make_shared<const RecordedRun>();
};

/// The most that a plan can hold: what the policy remembers of a run is a few times as much.
inline constexpr std::size_t kMostPlannedLaunches = 200'000;
inline constexpr std::size_t kMostPlannedBuffers = 1'000'000;
inline constexpr std::size_t kMostPlannedNames = 8'000'000;

/// The text of a plan's file. Throws std::bad_alloc. REQUIRES: nothing is above the limits.
[[nodiscard]] std::string text_of(const Plan& plan);

/// The plan that `text` is, or what is wrong with it, in words that go behind the file's name and a
/// colon. Whatever the text is, nothing worse happens; throws std::bad_alloc.
[[nodiscard]] std::variant<Plan, std::string> plan_from(const std::string& text);

/// The plan in the file at `path`, which is read whole. As plan_from().
[[nodiscard]] std::variant<Plan, std::string> read_plan(const std::string& path);

/// Gives `values` what the plan says about policy, layers and budget, where nothing is given that
/// says how much stays on the device, or which policy decides.
void give_values_of(const Plan& plan, SettingValues& values);

}  // namespace superpipe
