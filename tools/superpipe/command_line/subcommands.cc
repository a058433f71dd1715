#include "tools/superpipe/command_line/subcommands.h"

namespace superpipe::cli {

std::vector<std::unique_ptr<Subcommand>> all_subcommands() {
  std::vector<std::unique_ptr<Subcommand>> all;
  all.push_back(make_run_subcommand());
  all.push_back(make_profile_subcommand());
  all.push_back(make_plan_subcommand());
  all.push_back(make_report_subcommand());
  all.push_back(make_diff_subcommand());
  all.push_back(make_export_subcommand());
  all.push_back(make_verify_subcommand());
  all.push_back(make_budget_subcommand());
  all.push_back(make_top_subcommand());
  all.push_back(make_doctor_subcommand());
  all.push_back(make_env_subcommand());
  all.push_back(make_copy_runtime_subcommand());
  return all;
}

}  // namespace superpipe::cli
