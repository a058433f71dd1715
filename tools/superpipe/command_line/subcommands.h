// All subcommands of `superpipe`.
#pragma once

#include <memory>
#include <vector>

#include "tools/superpipe/command_line/subcommand.h"

namespace superpipe::cli {

// Those that start a program: starting_subcommands.cc.
[[nodiscard]] std::unique_ptr<Subcommand> make_run_subcommand();
[[nodiscard]] std::unique_ptr<Subcommand> make_profile_subcommand();
[[nodiscard]] std::unique_ptr<Subcommand> make_verify_subcommand();
// And the one for programs that others start.
[[nodiscard]] std::unique_ptr<Subcommand> make_env_subcommand();

// The one that brings superpipe to other places: deploying_subcommands.cc.
[[nodiscard]] std::unique_ptr<Subcommand> make_copy_runtime_subcommand();

// Those that read traces: trace_subcommands.cc.
[[nodiscard]] std::unique_ptr<Subcommand> make_plan_subcommand();
[[nodiscard]] std::unique_ptr<Subcommand> make_report_subcommand();
[[nodiscard]] std::unique_ptr<Subcommand> make_diff_subcommand();
[[nodiscard]] std::unique_ptr<Subcommand> make_export_subcommand();

// Those that look at running programs, or at the machine: live_subcommands.cc.
[[nodiscard]] std::unique_ptr<Subcommand> make_budget_subcommand();
[[nodiscard]] std::unique_ptr<Subcommand> make_top_subcommand();
[[nodiscard]] std::unique_ptr<Subcommand> make_doctor_subcommand();

/// All of them, in the order of the help.
[[nodiscard]] std::vector<std::unique_ptr<Subcommand>> all_subcommands();

}  // namespace superpipe::cli
