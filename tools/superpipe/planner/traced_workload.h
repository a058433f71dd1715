// A traced program as a workload for virtual time: what it does before its passes, and each pass.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "residency/virtual_time/program.h"
#include "tools/superpipe/planner/traced_program.h"

namespace superpipe::cli {

/// Which launches of a program make its passes.
struct TracedPasses {
  /// The first launch of each pass, and behind the last pass the launch after it. Empty: the
  /// program does not repeat itself.
  std::vector<std::size_t> begins;

  [[nodiscard]] std::size_t size() const { return begins.empty() ? 0 : begins.size() - 1; }
};

/// The passes of `program` by its landmarks (passes_by_landmarks()). Where it has none, as
/// superpipe itself finds them while a program runs under policy auto with room for all; those that
/// went by before it knew them are the ones before with the same kernels. Looks at the first
/// `most_launches` launches. Takes microseconds a launch.
[[nodiscard]] TracedPasses find_passes(const TracedProgram& program, std::size_t most_launches);

/// The steps of a program from its beginning to the end of a pass.
class TracedWorkload : public virtual_time::Workload {
 public:
  /// `program` must outlive it. Without passes the whole program is one.
  TracedWorkload(const TracedProgram& program, const TracedPasses& passes);

  void load(virtual_time::Program& program) override;
  void run_pass(virtual_time::Program& program, int number) override;

 private:
  void run_steps(virtual_time::Program& program, std::size_t begin, std::size_t end);
  [[nodiscard]] std::vector<virtual_time::Named>& named(const TracedStep& step);

  const TracedProgram& traced_;
  std::vector<std::size_t> bounds_;  ///< the first step of each pass, and the end of the last
  std::vector<virtual_time::Handle> handles_;  ///< by buffer
  std::vector<virtual_time::Named> named_;
};

}  // namespace superpipe::cli
