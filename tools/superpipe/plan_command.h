// `superpipe plan`: how a traced program would do with other budgets, policies and links.
#pragma once

#include <optional>
#include <string>

namespace superpipe::cli {

/// What stands on the command line; empty: not given.
struct PlanOptions {
  std::string file;      ///< the trace
  std::string gpu_mem;   ///< SIZE,SIZE,...
  std::string policies;  ///< NAME,NAME,...
  std::string host_mem;  ///< SIZE
  std::string k;         ///< N,N,...
  std::string k_prime;
  std::string link;    ///< gen3, gen4, gen5 or GB/s
  std::string fit;     ///< a card, or a SIZE
  std::string svg;     ///< a file for the picture of the trade-off
  std::string output;  ///< a file for the best plan; "-": standard output, and nothing else there
  bool sweep = false;
  bool json = false;
};

/// What is wrong with the flags, in one line that says what is allowed; nullopt if nothing is.
/// Opens no file.
[[nodiscard]] std::optional<std::string> problem_with(const PlanOptions& options);

/// Reads the trace and writes the answers to stdout; problems and progress go to stderr. REQUIRES:
/// !problem_with(options).
/// @return kSuccess; kProblemFound if what was asked about cannot run (--fit, a single budget), or
/// there is no plan to write; kBadUsage for a trace that cannot be planned with, or what cannot be
/// written.
[[nodiscard]] int plan_command(const PlanOptions& options);

}  // namespace superpipe::cli
